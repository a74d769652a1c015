// WebP to RGB: lossy, lossless, with alpha; of an animation the first frame on its canvas
// (libwebp).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format.
DecodeResult decode_webp(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
