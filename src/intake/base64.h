// Base64 text to bytes (RFC 4648 sections 4 and 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "intake/fault.h"

namespace tessera::intake {

// Both alphabets, also mixed; ASCII whitespace anywhere; padding whole, in part or missing. All
// else is refused: `corrupt` for a character outside the alphabet or padding in a wrong place (the
// message has its position, never the text), `truncated` for a last group of one character, `empty`
// for no characters, `too_large` for more than max_bytes decoded bytes. Takes no more memory than
// max_bytes. Throws only Error{out_of_memory}.
std::variant<std::vector<std::byte>, Refusal> decode_base64(std::string_view text,
                                                            int64_t max_bytes);

}  // namespace tessera::intake
