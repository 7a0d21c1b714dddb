#include "io/json_file.h"

#include <utility>
#include <vector>

#include "io/base/units.h"
#include "io/file.h"
#include "io/json_sax.h"

namespace tidemill::io {
namespace {

// Builds the tree. nlohmann's own builder would keep the last of two equal keys in silence.
class TreeBuilder final : public JsonSax {
 public:
  TreeBuilder(std::string_view path, std::size_t max_depth) : JsonSax(path, "JSON", 0, max_depth) {}

  nlohmann::json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) fail("duplicate key \"" + printable(name) + "\"");
    key_ = std::move(name);
    return true;
  }

 private:
  bool begin_object() override { return open(nlohmann::json::object()); }
  bool begin_array() override { return open(nlohmann::json::array()); }
  bool finish_object() override { return close(); }
  bool finish_array() override { return close(); }

  bool open(nlohmann::json&& container) {
    add(std::move(container));
    open_.push_back(last_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  // Pointers to open containers stay valid: a container's siblings are added after it is closed.
  bool add(nlohmann::json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      last_ = &open_.back()->back();
    } else {
      last_ = &((*open_.back())[key_] = std::move(value));
    }
    return true;
  }

  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  nlohmann::json* last_ = nullptr;
  std::string key_;
};

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view path, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: {} of JSON, at most {} are accepted", printable(path),
                            format_bytes(text.size()), format_bytes(limits.max_bytes)),
                {.path = std::string(path), .offset = {}, .error_number = 0});
  }
  TreeBuilder builder(path, limits.max_depth);
  builder.parse(text);
  return builder.take();
}

nlohmann::json load_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  const auto file = File::open(path, DirectIo::kOff);
  if (file->size() > limits.max_bytes) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: {} of JSON, at most {} are accepted", printable(path.native()),
                            format_bytes(file->size()), format_bytes(limits.max_bytes)),
                {.path = path.native(), .offset = {}, .error_number = 0});
  }
  const std::vector<std::byte> bytes = file->read({0, file->size()});
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.native(),
                    limits);
}

}  // namespace tidemill::io
