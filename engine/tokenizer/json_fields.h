// Checked access to the fields of the parsed tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tidemill::engine {

/// `object` must be a JSON object; `where` names it in errors. Error(kModel) otherwise.
void require_object(const nlohmann::json& object, std::string_view where);

/// The field `name`, or nullptr if it is absent or null.
const nlohmann::json* find_field(const nlohmann::json& object, std::string_view name);

/// Error(kModel) if the field is absent or has another type.
std::string string_field(const nlohmann::json& object, std::string_view name,
                         std::string_view where);
const nlohmann::json& array_field(const nlohmann::json& object, std::string_view name,
                                  std::string_view where);

/// `fallback` if the field is absent; Error(kModel) if it is no boolean.
bool bool_field(const nlohmann::json& object, std::string_view name, bool fallback,
                std::string_view where);

/// The field as an unsigned number below `limit`.
std::uint32_t count_field(const nlohmann::json& object, std::string_view name, std::uint32_t limit,
                          std::string_view where);

/// Error(kModel): `where` is of a type that Tidemill does not know.
[[noreturn]] void unsupported_type(std::string_view where, std::string_view type);

}  // namespace tidemill::engine
