// The one EXIF field that matters here.
#pragma once

#include <cstddef>
#include <span>

namespace tessera::intake {

// The Orientation (1 to 8) of an EXIF block: a TIFF structure, with or without "Exif\0\0" before
// it. 1 where there is none or it makes no sense, as Pillow's exif_transpose reads it.
int exif_orientation(std::span<const std::byte> exif);

}  // namespace tessera::intake
