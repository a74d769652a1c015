// RGB pictures as PNG files, for people to look at.
#pragma once

#include <cstddef>
#include <vector>

#include "image/image.h"

namespace tessera::intake {

// 8-bit RGB, not interlaced. Throws Error{out_of_memory}.
std::vector<std::byte> encode_png(const image::Image& picture);

}  // namespace tessera::intake
