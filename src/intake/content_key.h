// The identity of a picture: what the model sees of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "image/image.h"

namespace tessera::intake {

// SHA-256 (hexadecimal) over a domain tag, the policy's name, the token grid and the canvas with
// its size. Two pictures have one key only if the model sees the same pixels in the same cells;
// names, URLs and encodings do not matter.
std::string content_key(std::string_view policy, int64_t grid_rows, int64_t grid_columns,
                        const image::Image& canvas);

}  // namespace tessera::intake
