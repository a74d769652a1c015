// Unfolds a grid of feature rows into blocks of size x size cells, channel outermost:
//   y[by*out_w + bx][c*size*size + ky*size + kx] = x[(size*by + ky)*grid_w + size*bx + kx][c]
// Cells beyond the grid (right and bottom) are zero. Source: deepseek_v41 specification 4.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

struct MergeGrid {
  int64_t height = 0;  // rows of cells of x
  int64_t width = 0;   // cells in a row
  int64_t size = 1;    // cells per block side

  int64_t out_height() const { return (height + size - 1) / size; }
  int64_t out_width() const { return (width + size - 1) / size; }
};

// x [height*width, channels], y [out_height*out_width, channels*size*size].
void unfold(ExecContext& ctx, const MergeGrid& grid, const bf16* x, int64_t channels, bf16* y);
void unfold(ExecContext& ctx, const MergeGrid& grid, const float* x, int64_t channels, float* y);

}  // namespace tessera
