// From a canvas to the patch rows a vision tower reads.
#pragma once

#include <array>
#include <cstdint>

#include "base/float_types.h"
#include "image/image.h"
#include "tensor/tensor.h"

namespace tessera::image {

// What each of the 256 levels of a channel becomes.
using PixelTable = std::array<bf16, 256>;

// bf16((f32(u) / 255 - 0.5) / 0.5), each step rounded to fp32: mean and deviation 0.5, so [-1, 1].
// DeepSeek-V4.1 specification, section 2.5. Other spellings of the formula change one entry.
const PixelTable& signed_unit_table();

// bf16 [rows * columns, 3 * patch * patch] of a canvas of rows x columns square patches, patches in
// row-major order. Within a patch the channel comes first, then the row, then the column. The sides
// of the canvas must be multiples of `patch`.
Tensor patchify(const Image& canvas, int64_t patch, const PixelTable& table);

}  // namespace tessera::image
