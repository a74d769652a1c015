// Checks shared by the decoders.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "intake/decode.h"

namespace tessera::intake {

// Nothing if a picture of this size may be decoded. Sides are below 2^32.
std::optional<Refusal> check_header_size(std::string_view format, int64_t width, int64_t height,
                                         const DecodeLimits& limits);

// The refusal of a decoder whose deadline is over.
Refusal refuse_late(std::string_view format);

}  // namespace tessera::intake
