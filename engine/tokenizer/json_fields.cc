#include "engine/tokenizer/json_fields.h"

#include "io/base/error.h"

namespace tidemill::engine {

using nlohmann::json;

void require_object(const json& object, std::string_view where) {
  if (!object.is_object()) throw_error(ErrorKind::kModel, "{} is not an object", where);
}

const json* find_field(const json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string string_field(const json& object, std::string_view name, std::string_view where) {
  const json* field = find_field(object, name);
  if (field == nullptr || !field->is_string()) {
    throw_error(ErrorKind::kModel, "{}: \"{}\" is not a string", where, name);
  }
  return field->get<std::string>();
}

const json& array_field(const json& object, std::string_view name, std::string_view where) {
  const json* field = find_field(object, name);
  if (field == nullptr || !field->is_array()) {
    throw_error(ErrorKind::kModel, "{}: \"{}\" is not an array", where, name);
  }
  return *field;
}

bool bool_field(const json& object, std::string_view name, bool fallback, std::string_view where) {
  const json* field = find_field(object, name);
  if (field == nullptr) return fallback;
  if (!field->is_boolean()) {
    throw_error(ErrorKind::kModel, "{}: \"{}\" is not true or false", where, name);
  }
  return field->get<bool>();
}

std::uint32_t count_field(const json& object, std::string_view name, std::uint32_t limit,
                          std::string_view where) {
  const json* field = find_field(object, name);
  if (field == nullptr || !field->is_number_unsigned() || field->get<std::uint64_t>() >= limit) {
    throw_error(ErrorKind::kModel, "{}: \"{}\" is not a number below {}", where, name, limit);
  }
  return field->get<std::uint32_t>();
}

void unsupported_type(std::string_view where, std::string_view type) {
  throw_error(ErrorKind::kModel, "{} of type \"{}\" is not supported", where, printable(type, 40));
}

}  // namespace tidemill::engine
