// TIFF to RGB: the first page, turned by its Orientation tag as Pillow does (libtiff).
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format.
DecodeResult decode_tiff(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
