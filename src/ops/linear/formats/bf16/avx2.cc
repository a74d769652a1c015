#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {

void unpack_bf16_f32_avx2(const UnpackArgs& args) noexcept {
  constexpr int64_t kInputsPerBlock = 32;
  constexpr int64_t kStep = 8;  // inputs in 16 bytes
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kF32PanelBytes>(
      args, unpack_bf16_f32_reference, [=](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          for (int half = 0; half < 16; half += 8) {
            __m256i pairs[4];
            load_transposed_dwords(block, half, static_cast<int>(i * 2), pairs);
            for (int j = 0; j < 4; ++j) {
              float* to = panel + (done + i + 2 * j) * kPanelRows + half;
              _mm256_store_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(pairs[j], 16)));
              _mm256_store_ps(to + kPanelRows,
                              _mm256_castsi256_ps(_mm256_and_si256(pairs[j], high_half)));
            }
          }
        }
      });
}

}  // namespace tessera::kernels
