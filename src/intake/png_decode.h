// PNG to RGB (libpng; no gamma, no background colour of the file).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the PNG signature. All colour types and depths, interlaced or not. Palette
// indices beyond the palette are black. tRNS counts for palettes and, by policy, for RGB; for grey
// never, as in Pillow and OpenCV. Of an APNG the default image is read. Memory: the RGB result and
// two rows.
DecodeResult decode_png(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
