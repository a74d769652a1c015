#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kStep = 8;  // inputs in 16 bytes

}  // namespace

void unpack_bf16_f32_avx512(const UnpackArgs& args) noexcept {
  const PanelRowPointers rows = row_pointers(args, args.first * 2);
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  float* panel = static_cast<float*>(args.panel);
  int64_t i = 0;
  for (; i + kStep <= args.count; i += kStep) {
    prefetch_ahead<kStep * 2 * 16>(args, i * 2 * 16);
    __m512i pairs[4];
    load_transposed_dwords(rows, i * 2, pairs);
    for (int j = 0; j < 4; ++j) {
      float* to = panel + (i + 2 * j) * kPanelRows;
      _mm512_store_si512(to, _mm512_slli_epi32(pairs[j], 16));
      _mm512_store_si512(to + kPanelRows, _mm512_and_si512(pairs[j], high_half));
    }
  }
  if (i < args.count) {
    unpack_bf16_f32_reference(rest_of(args, i, kF32PanelBytes));
  }
}

void unpack_bf16_pairs_avx512(const UnpackArgs& args) noexcept {
  const PanelRowPointers rows = row_pointers(args, args.first * 2);
  std::byte* panel = static_cast<std::byte*>(args.panel);
  int64_t i = 0;
  for (; i + kStep <= args.count; i += kStep) {
    prefetch_ahead<kStep * 2 * 16>(args, i * 2 * 16);
    __m512i pairs[4];
    load_transposed_dwords(rows, i * 2, pairs);
    for (int j = 0; j < 4; ++j) {
      _mm512_store_si512(panel + (i + 2 * j) * kPairPanelBytes, pairs[j]);
    }
  }
  if (i < args.count) {
    unpack_bf16_pairs_reference(rest_of(args, i, kPairPanelBytes));
  }
}

}  // namespace tessera::kernels
