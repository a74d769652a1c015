#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 32;
constexpr int64_t kStep = 8;  // inputs in 16 bytes

}  // namespace

void unpack_bf16_f32_avx512(const UnpackArgs& args) noexcept {
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kF32PanelBytes>(
      args, unpack_bf16_f32_reference, [=](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          __m512i pairs[4];
          load_transposed_dwords(block, static_cast<int>(i * 2), pairs);
          for (int j = 0; j < 4; ++j) {
            float* to = panel + (done + i + 2 * j) * kPanelRows;
            _mm512_store_si512(to, _mm512_slli_epi32(pairs[j], 16));
            _mm512_store_si512(to + kPanelRows, _mm512_and_si512(pairs[j], high_half));
          }
        }
      });
}

void unpack_bf16_pairs_avx512(const UnpackArgs& args) noexcept {
  std::byte* panel = static_cast<std::byte*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kPairPanelBytes>(
      args, unpack_bf16_pairs_reference,
      [=](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          __m512i pairs[4];
          load_transposed_dwords(block, static_cast<int>(i * 2), pairs);
          for (int j = 0; j < 4; ++j) {
            _mm512_store_si512(panel + (done + i + 2 * j) * kPairPanelBytes, pairs[j]);
          }
        }
      });
}

}  // namespace tessera::kernels
