#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/f16/f16_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {

void unpack_f16_f32_avx2(const UnpackArgs& args) noexcept {
  constexpr int64_t kInputsPerBlock = 32;
  constexpr int64_t kStep = 8;  // inputs in 16 bytes
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kF32PanelBytes>(
      args, unpack_f16_f32_reference, [=](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          for (int half = 0; half < 16; half += 8) {
            __m256i pairs[4];  // two inputs of each row, the even one in the lower half
            load_transposed_dwords(block, half, static_cast<int>(i * 2), pairs);
            for (int j = 0; j < 4; ++j) {
              const __m256i even = _mm256_and_si256(pairs[j], _mm256_set1_epi32(0xffff));
              const __m256i odd = _mm256_srli_epi32(pairs[j], 16);
              // Rows 0-3 of both, rows 4-7 of both: in lanes, as packus works.
              const __m256i packed = _mm256_packus_epi32(even, odd);
              const __m256i rows = _mm256_permute4x64_epi64(packed, 0xd8);
              float* to = panel + (done + i + 2 * j) * kPanelRows + half;
              _mm256_store_ps(to, _mm256_cvtph_ps(_mm256_castsi256_si128(rows)));
              _mm256_store_ps(to + kPanelRows, _mm256_cvtph_ps(_mm256_extracti128_si256(rows, 1)));
            }
          }
        }
      });
}

}  // namespace tessera::kernels
