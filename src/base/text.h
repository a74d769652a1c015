// Text from outside: is it UTF-8, and how to show it in a one-line message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// Bytes of the well-formed UTF-8 sequence (RFC 3629: no overlong forms, no surrogates) that `text`
// starts with; 0 if there is none.
size_t utf8_sequence_bytes(std::string_view text);

bool is_valid_utf8(std::string_view text);

// `text` in single quotes; control characters and bytes that are not UTF-8 become \xNN, and what
// follows the first `limit` bytes becomes "...". Files that include <filesystem> or <iomanip> must
// say tessera::quoted, for std::quoted is found there by its argument.
std::string quoted(std::string_view text, size_t limit = 120);

}  // namespace tessera
