// JPEG to RGB as Pillow decodes it (libjpeg-turbo with its defaults: accurate integer DCT, smooth
// chroma upsampling). EXIF orientation: by policy.
#pragma once

#include <cstddef>
#include <span>

#include "intake/decode.h"

namespace tessera::intake {

// `bytes` start with FF D8 FF. Baseline and progressive, arithmetic coding by policy, one, three
// and four components. Four components are read as inverted CMYK or YCCK, with or without Adobe's
// marker. Stricter than Pillow where it would show a half picture: entropy data that is damaged or
// ends early is refused (corrupt), a file without its end marker too (truncated). "MPO" is the
// format of a file whose multi-picture index names more than one picture; the first one is read.
DecodeResult decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace tessera::intake
