// Pictures written into a URL: data:[TYPE][;PARAMETERS][;base64],DATA (RFC 2397).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "intake/fault.h"

namespace tessera::intake {

// The scheme is `data`, in any case; whitespace before it does not matter.
bool is_data_url(std::string_view url);

// The bytes; what they are is for the decoder to say, the declared type is not looked at. Percent
// escapes are decoded first, a fragment (#...) is not part of the data. With `;base64` (any case)
// the rules of decode_base64() follow; without it the data must be printable ASCII and escapes.
// Refused: `unrecognised` for another scheme, `corrupt` for what does not follow the form, `empty`,
// `truncated` and `too_large`, which is found before memory is taken. Messages have no part of the
// URL. Throws only Error{out_of_memory}.
std::variant<std::vector<std::byte>, Refusal> parse_data_url(std::string_view url,
                                                             int64_t max_bytes);

}  // namespace tessera::intake
