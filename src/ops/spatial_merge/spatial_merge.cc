#include "ops/spatial_merge/spatial_merge.h"

namespace tessera {
namespace {

template <typename T>
void unfold_of(ExecContext& ctx, const MergeGrid& grid, const T* x, int64_t channels, T* y) {
  const int64_t size = grid.size;
  const int64_t out_width = grid.out_width();
  ctx.threads.parallel_for(grid.out_height() * out_width, [&](int64_t block, int) {
    T* out = y + block * channels * size * size;
    for (int64_t ky = 0; ky < size; ++ky) {
      for (int64_t kx = 0; kx < size; ++kx) {
        const int64_t row = block / out_width * size + ky;
        const int64_t column = block % out_width * size + kx;
        const bool inside = row < grid.height && column < grid.width;
        const int64_t in = (row * grid.width + column) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          out[(c * size + ky) * size + kx] = inside ? x[in + c] : T{};
        }
      }
    }
  });
}

}  // namespace

void unfold(ExecContext& ctx, const MergeGrid& grid, const bf16* x, int64_t channels, bf16* y) {
  unfold_of(ctx, grid, x, channels, y);
}

void unfold(ExecContext& ctx, const MergeGrid& grid, const float* x, int64_t channels, float* y) {
  unfold_of(ctx, grid, x, channels, y);
}

}  // namespace tessera
