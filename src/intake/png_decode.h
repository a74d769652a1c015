// PNG to RGB with Pillow's rules (libpng; no gamma, no transparency, no background).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the PNG signature. All colour types and depths, interlaced or not. 16-bit grey
// is clipped to 255, other 16-bit samples keep their high byte; alpha and tRNS are ignored; palette
// indices beyond the palette are black. Of an APNG the default image is read. Memory: the RGB
// result and two rows.
DecodeResult decode_png(std::span<const std::byte> bytes, const DecodeLimits& limits);

}  // namespace tessera::intake
