// The part that all of our streaming JSON readers share: where they are, how deep, and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/base/error.h"

namespace tidemill::io {

/// Walks over text and tells where it is, so that errors of meaning have a byte offset too.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TrackingIterator& a, const TrackingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  const char** furthest_;
};

/// Base of SAX handlers. Everything that a handler does not override is refused, the depth is
/// bounded, and errors are thrown as Error(kModel) "PATH: bad WHAT at byte N: why".
class JsonSax {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  /// `what` names the document in errors ("header"); `base` is added to offsets.
  JsonSax(std::string_view path, std::string_view what, std::uint64_t base, std::size_t max_depth)
      : path_(path), what_(what), base_(base), max_depth_(max_depth) {}
  virtual ~JsonSax() = default;

  /// Runs over one JSON document; throws unless all of it is well-formed.
  void parse(std::string_view text) {
    begin_ = furthest_ = text.data();
    nlohmann::json::sax_parse(TrackingIterator(text.data(), &furthest_),
                              TrackingIterator(text.data() + text.size(), &furthest_), this,
                              nlohmann::json::input_format_t::json, true, false);
  }

  virtual bool null() { refuse("null"); }
  virtual bool boolean(bool) { refuse("a boolean"); }
  virtual bool number_integer(number_integer_t) { refuse("a negative number"); }
  virtual bool number_unsigned(number_unsigned_t) { refuse("a number"); }
  virtual bool number_float(number_float_t, const string_t& text) {
    refuse("the number " + printable(text, 40));
  }
  virtual bool string(string_t&) { refuse("a string"); }
  virtual bool key(string_t&) = 0;
  bool binary(binary_t&) { refuse("binary data"); }
  bool start_object(std::size_t) {
    enter();
    return begin_object();
  }
  bool end_object() {
    --depth_;
    return finish_object();
  }
  bool start_array(std::size_t) {
    enter();
    return begin_array();
  }
  bool end_array() {
    --depth_;
    return finish_array();
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line ...: syntax error ..." without the tag
    std::string_view text = e.what();
    if (const auto end = text.find("] "); end != std::string_view::npos) {
      text.remove_prefix(end + 2);
    }
    fail_at(base_ + (position > 0 ? position - 1 : 0), printable(text, 300));
  }

  /// Throws; the offset is where the parser has read to.
  [[noreturn]] void fail(std::string_view why) const {
    fail_at(base_ + static_cast<std::uint64_t>(furthest_ - begin_), why);
  }

 protected:
  virtual bool begin_object() { refuse("an object"); }
  virtual bool finish_object() { return true; }
  virtual bool begin_array() { refuse("an array"); }
  virtual bool finish_array() { return true; }

  /// Objects and arrays around the current place: 1 inside the outermost object.
  std::size_t depth() const { return depth_; }
  /// "PATH: bad WHAT: unexpected THING"
  [[noreturn]] void refuse(std::string_view thing) const {
    fail("unexpected " + std::string(thing));
  }
  const std::string& path() const { return path_; }

 private:
  void enter() {
    if (++depth_ > max_depth_) fail("nested too deeply");
  }
  [[noreturn]] void fail_at(std::uint64_t offset, std::string_view why) const {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: bad {} at byte {}: {}", printable(path_), what_, offset, why),
                {.path = path_, .offset = offset, .error_number = 0});
  }

  std::string path_;
  std::string what_;
  std::uint64_t base_;
  std::size_t max_depth_;
  std::size_t depth_ = 0;
  const char* begin_ = nullptr;
  const char* furthest_ = nullptr;
};

}  // namespace tidemill::io
