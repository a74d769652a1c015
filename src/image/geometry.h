// Where a picture goes when it is fitted into a canvas: the rules of Pillow's ImageOps.contain and
// ImageOps.pad (9.4 to 13.0), in IEEE double and in Pillow's order of operations.
#pragma once

#include <cmath>
#include <cstdint>

#include "image/image.h"

namespace tessera::image {

// Python's round(): to nearest, ties to even. |x| < 2^53.
inline int64_t round_half_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

// ImageOps.contain: the largest size with the source's aspect ratio inside `box`. One side equals
// the box's; the other one may round to 0, which the caller must refuse. All sides >= 1.
Size contain_size(Size source, Size box);

// ImageOps.pad with centering (0.5, 0.5): the place of content that contain_size() made for this
// canvas. At most one of x and y is not 0.
Box centred_box(Size content, Size canvas);

// Copies `content` into `canvas` with its upper left corner at (x, y). It must fit.
void paste(const Image& content, int64_t x, int64_t y, Image& canvas);

}  // namespace tessera::image
