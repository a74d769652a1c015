// Text from traces for a web page. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::trace {

// Valid UTF-8 that shows what is there: bytes that are not UTF-8 become U+FFFD, control characters
// and those that change the direction of text become "\u{202e}". Of a longer text than `most`
// bytes the first two thirds and the end are kept, with U+2026 between them.
std::string clean_text(std::string_view text, size_t most);

// For the content of an element or a quoted attribute.
std::string html_text(std::string_view text);

// JSON for the content of a script element: '<', '>', '&', U+2028 and U+2029, which JSON has in
// strings only, as \u003c and so on.
std::string script_json(std::string_view json);

// "sha256-...", the form of a content security policy.
std::string policy_hash(std::string_view text);

}  // namespace tessera::trace
