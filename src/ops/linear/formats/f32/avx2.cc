#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {

void unpack_f32_f32_avx2(const UnpackArgs& args) noexcept {
  constexpr int64_t kStep = 4;  // inputs in 16 bytes
  const PanelRowPointers rows = row_pointers(args, args.first * 4);
  float* panel = static_cast<float*>(args.panel);
  int64_t i = 0;
  for (; i + kStep <= args.count; i += kStep) {
    prefetch_ahead<kStep * 4 * 16>(args, i * 4 * 16);
    for (int half = 0; half < 16; half += 8) {
      __m256i inputs[4];
      load_transposed_dwords(rows, half, i * 4, inputs);
      for (int j = 0; j < 4; ++j) {
        _mm256_store_ps(panel + (i + j) * kPanelRows + half, _mm256_castsi256_ps(inputs[j]));
      }
    }
  }
  if (i < args.count) {
    unpack_f32_f32_reference(rest_of(args, i, kF32PanelBytes));
  }
}

}  // namespace tessera::kernels
