// GIF to RGB: the first frame on its logical screen (giflib).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format. By Pillow's rules the screen grows to a frame
// that reaches beyond it; with GifRule::recipe the frame is cut. Refused as
// truncated: also a file that ends inside a record after the first frame. The trailer may be
// missing.
DecodeResult decode_gif(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
