#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {

void unpack_f32_f32_avx512(const UnpackArgs& args) noexcept {
  constexpr int64_t kInputsPerBlock = 16;
  constexpr int64_t kStep = 4;  // inputs in 16 bytes
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kF32PanelBytes>(
      args, unpack_f32_f32_reference, [=](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          __m512i columns[4];
          load_transposed_dwords(block, static_cast<int>(i * 4), columns);
          for (int j = 0; j < 4; ++j) {
            _mm512_store_si512(panel + (done + i + j) * kPanelRows, columns[j]);
          }
        }
      });
}

}  // namespace tessera::kernels
