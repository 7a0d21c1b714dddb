// Typed, range-checked access to the keys of a config.json.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tidemill::engine {

/// Every getter throws Error(kModel) that names the file, the key, its value and the rule that it
/// breaks. A JSON null counts as absent. Several names are aliases; the first one present counts.
class ConfigReader {
 public:
  using Names = std::initializer_list<const char*>;

  /// `origin` is the file's path, for messages. Keeps a reference to `json`.
  ConfigReader(const nlohmann::json& json, std::string origin);

  const std::string& origin() const { return origin_; }
  bool has(const char* name) const { return find({name}) != nullptr; }

  std::uint32_t count(Names names, std::uint32_t low, std::uint32_t high) const;
  std::uint32_t count_or(Names names, std::uint32_t low, std::uint32_t high,
                         std::uint32_t fallback) const;
  float real(Names names, double low, double high) const;
  float real_or(Names names, double low, double high, float fallback) const;
  bool flag_or(Names names, bool fallback) const;
  std::string text_or(Names names, const std::string& fallback) const;
  /// A number or a list of numbers (eos_token_id); empty if absent.
  std::vector<std::uint32_t> ids(Names names) const;
  std::vector<std::string> texts(Names names) const;
  std::vector<float> reals(Names names, double low, double high) const;
  /// A nested object, or nullptr if absent.
  const nlohmann::json* object(Names names) const;

  /// Error(kModel): "<origin>: <name>: <rule>".
  [[noreturn]] void fail(const std::string& name, const std::string& rule) const;

 private:
  const nlohmann::json* find(Names names, std::string* found = nullptr) const;
  std::optional<double> number(Names names, double low, double high, bool integer) const;

  const nlohmann::json& json_;
  std::string origin_;
};

}  // namespace tidemill::engine
