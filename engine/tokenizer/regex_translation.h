// From the regular expressions of tokenizer.json, written for Oniguruma, to those of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace tidemill::engine {

/// A PCRE2 pattern (UTF, UCP) that matches what Oniguruma would match for `pattern`. Everything
/// whose meaning is the same passes through; what differs is rewritten: `[` inside a class opens a
/// nested class, `\s` is White_Space, `\w` and `\d` have other Unicode definitions, `{,n}` is an
/// interval, a script name means Script and not Script_Extensions. Error(kModel) for every
/// construct that is not known to agree (anchors, back references, class intersections, ...).
std::string translate_regex(std::string_view pattern);

}  // namespace tidemill::engine
