// WebP to RGB: lossy, lossless, with alpha; of an animation the first frame on its canvas
// (libwebp).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format. A file shorter than its RIFF container is
// truncated; image data that ends early inside a whole container is corrupt. Needs up to 9 bytes
// for each pixel of the frame besides the picture.
DecodeResult decode_webp(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
