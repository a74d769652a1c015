// E4M3 [rows, inputs] with one fp32 or bf16 scale per tile, which is no power of two: the panels
// hold the codes' values and the sums over a tile's inputs are multiplied by its scale (linear.h).
// The codes are unpacked by fp8_block's kernels with the scale 1.
#pragma once

#include <cstdint>

#include "ops/linear/linear.h"

namespace tessera::kernels {

// Of tile (row / block, block_index).
float fp8_scaled_scale(const WeightFp8Scaled& weight, int64_t inputs, int64_t row,
                       int64_t block_index);

}  // namespace tessera::kernels
