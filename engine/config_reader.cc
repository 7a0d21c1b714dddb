#include "engine/config_reader.h"

#include <cmath>
#include <utility>

#include "io/base/error.h"

namespace tidemill::engine {

using nlohmann::json;

ConfigReader::ConfigReader(const json& json, std::string origin)
    : json_(json), origin_(std::move(origin)) {
  if (!json_.is_object()) {
    throw Error(ErrorKind::kModel, fmt::format("{}: not a JSON object", origin_),
                {.path = origin_});
  }
}

void ConfigReader::fail(const std::string& name, const std::string& rule) const {
  throw Error(ErrorKind::kModel, fmt::format("{}: {}: {}", origin_, name, rule), {.path = origin_});
}

const json* ConfigReader::find(Names names, std::string* found) const {
  for (const char* name : names) {
    const auto it = json_.find(name);
    if (it == json_.end() || it->is_null()) continue;
    if (found != nullptr) *found = name;
    return &*it;
  }
  return nullptr;
}

std::optional<double> ConfigReader::number(Names names, double low, double high,
                                           bool integer) const {
  std::string name;
  const json* value = find(names, &name);
  if (value == nullptr) return std::nullopt;
  const bool fits = integer ? value->is_number_integer() : value->is_number();
  const double number = fits ? value->get<double>() : 0.0;
  if (!fits || !std::isfinite(number) || number < low || number > high) {
    fail(name, fmt::format("{} is not {} from {} to {}", printable(value->dump(), 60),
                           integer ? "a whole number" : "a number", low, high));
  }
  return number;
}

std::uint32_t ConfigReader::count(Names names, std::uint32_t low, std::uint32_t high) const {
  const auto value = number(names, low, high, true);
  if (!value) fail(*names.begin(), "missing");
  return static_cast<std::uint32_t>(*value);
}

std::uint32_t ConfigReader::count_or(Names names, std::uint32_t low, std::uint32_t high,
                                     std::uint32_t fallback) const {
  const auto value = number(names, low, high, true);
  return value ? static_cast<std::uint32_t>(*value) : fallback;
}

float ConfigReader::real(Names names, double low, double high) const {
  const auto value = number(names, low, high, false);
  if (!value) fail(*names.begin(), "missing");
  return static_cast<float>(*value);
}

float ConfigReader::real_or(Names names, double low, double high, float fallback) const {
  const auto value = number(names, low, high, false);
  return value ? static_cast<float>(*value) : fallback;
}

bool ConfigReader::flag_or(Names names, bool fallback) const {
  std::string name;
  const json* value = find(names, &name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    fail(name, fmt::format("{} is not true or false", printable(value->dump(), 60)));
  }
  return value->get<bool>();
}

std::string ConfigReader::text_or(Names names, const std::string& fallback) const {
  std::string name;
  const json* value = find(names, &name);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    fail(name, fmt::format("{} is not a string", printable(value->dump(), 60)));
  }
  return value->get<std::string>();
}

std::vector<std::uint32_t> ConfigReader::ids(Names names) const {
  std::string name;
  const json* value = find(names, &name);
  std::vector<std::uint32_t> out;
  if (value == nullptr) return out;
  const auto add = [&](const json& id) {
    // Some configurations write -1 for "none".
    if (id.is_number_integer() && id.get<std::int64_t>() == -1) return;
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > UINT32_MAX) {
      fail(name, fmt::format("{} is not a token id", printable(id.dump(), 60)));
    }
    out.push_back(id.get<std::uint32_t>());
  };
  if (value->is_array()) {
    for (const json& id : *value) add(id);
  } else {
    add(*value);
  }
  return out;
}

std::vector<std::string> ConfigReader::texts(Names names) const {
  std::string name;
  const json* value = find(names, &name);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (!value->is_array()) fail(name, "not a list of strings");
  for (const json& text : *value) {
    if (!text.is_string()) fail(name, "not a list of strings");
    out.push_back(text.get<std::string>());
  }
  return out;
}

std::vector<float> ConfigReader::reals(Names names, double low, double high) const {
  std::string name;
  const json* value = find(names, &name);
  std::vector<float> out;
  if (value == nullptr) return out;
  if (!value->is_array()) fail(name, "not a list of numbers");
  for (const json& item : *value) {
    const double number = item.is_number() ? item.get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
      fail(name,
           fmt::format("{} is not a number from {} to {}", printable(item.dump(), 60), low, high));
    }
    out.push_back(static_cast<float>(number));
  }
  return out;
}

const json* ConfigReader::object(Names names) const {
  std::string name;
  const json* value = find(names, &name);
  if (value != nullptr && !value->is_object()) fail(name, "not an object");
  return value;
}

}  // namespace tidemill::engine
