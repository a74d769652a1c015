// GIF to RGB: the first frame on its logical screen (giflib).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format.
DecodeResult decode_gif(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
