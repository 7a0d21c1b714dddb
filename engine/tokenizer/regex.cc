#include "engine/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/tokenizer/regex_translation.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"
#include "io/base/units.h"

namespace tidemill::engine {
namespace {

// The patterns of real tokenizers hardly backtrack; these stop the others. Steps are counted per
// starting position, the heap only serves the interpreter.
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKiB = 32 * 1024;
constexpr std::size_t kJitStackStart = 32 * kKiB;
constexpr std::size_t kJitStackLimit = kMiB;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

const PCRE2_UCHAR* units(std::string_view text) {
  return reinterpret_cast<const PCRE2_UCHAR*>(text.data());
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;

  explicit Code(pcre2_code* compiled) : code(compiled) {
    // Without JIT (a hardened kernel, another architecture) the interpreter gives the same matches.
    jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern) : pattern_(pattern) {
  const std::string translated = translate_regex(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  TM_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // what `.` does not match
  pcre2_code* code =
      pcre2_compile(units(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get());
  if (code == nullptr) {
    throw_error(ErrorKind::kModel, "regular expression \"{}\": {}", printable(pattern),
                message_of(error));
  }
  code_ = std::make_shared<const Code>(code);
}

struct Regex::Search::State {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
};

void Regex::Search::Free::operator()(State* state) const {
  pcre2_match_data_free(state->data);
  pcre2_match_context_free(state->context);
  pcre2_jit_stack_free(state->stack);
  delete state;
}

Regex::Search::Search(const Regex& regex) : regex_(regex), state_(new State) {
  state_->data = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  TM_CHECK(state_->data != nullptr && state_->context != nullptr, "out of memory");
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimitKiB);
  if (regex.code_->jit) {
    state_->stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
    if (state_->stack != nullptr) {
      pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
    }
  }
}

const std::vector<TextRange>& Regex::Search::all(std::string_view text) {
  matches_.clear();
  std::size_t start = 0;
  while (start <= text.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(regex_.code_->code, units(text), text.size(), start,
                         PCRE2_NO_UTF_CHECK | options, state_->data, state_->context);
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw_error(ErrorKind::kModel, "regular expression \"{}\" on a text of {} bytes: {}",
                  printable(regex_.pattern_), text.size(), message_of(result));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state_->data);
    const TextRange range{bounds[0], bounds[1]};
    const bool after_match = !matches_.empty() && matches_.back().end == range.end;
    start = range.end;
    if (range.empty() && after_match) {
      if (start == text.size()) break;
      start += utf8_length(text[start]);
    } else {
      matches_.push_back(range);
    }
  }
  return matches_;
}

}  // namespace tidemill::engine
