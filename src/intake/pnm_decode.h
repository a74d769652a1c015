// PBM, PGM and PPM to RGB, plain and binary. Our own reader.
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with the signature of the format.
DecodeResult decode_pnm(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
