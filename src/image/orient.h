// Turning pictures as a camera's orientation tag says.
#pragma once

#include "image/image.h"

namespace tessera::image {

// Orientation of EXIF and TIFF: 1 upright, 2 mirrored, 3 half a turn, 4 flipped, 5 to 8 the same
// with sides exchanged. Anything else is read as 1.
Image orient(Image picture, int orientation);

}  // namespace tessera::image
