#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {

void unpack_bf16_f32_avx2(const UnpackArgs& args) noexcept {
  constexpr int64_t kStep = 8;  // inputs in 16 bytes
  const PanelRowPointers rows = row_pointers(args, args.first * 2);
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  float* panel = static_cast<float*>(args.panel);
  int64_t i = 0;
  for (; i + kStep <= args.count; i += kStep) {
    prefetch_ahead<kStep * 2 * 16>(args, i * 2 * 16);
    for (int half = 0; half < 16; half += 8) {
      __m256i pairs[4];
      load_transposed_dwords(rows, half, i * 2, pairs);
      for (int j = 0; j < 4; ++j) {
        float* to = panel + (i + 2 * j) * kPanelRows + half;
        _mm256_store_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(pairs[j], 16)));
        _mm256_store_ps(to + kPanelRows,
                        _mm256_castsi256_ps(_mm256_and_si256(pairs[j], high_half)));
      }
    }
  }
  if (i < args.count) {
    unpack_bf16_f32_reference(rest_of(args, i, kF32PanelBytes));
  }
}

}  // namespace tessera::kernels
