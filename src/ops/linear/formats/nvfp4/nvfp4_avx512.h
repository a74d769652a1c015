// Scales of NVFP4 in AVX-512 registers. Included by *avx512.cc only; everything is static, see
// rows_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx512.h"

namespace tessera::kernels {

constexpr int64_t kNvfp4Group = 16;  // inputs per scale

// What the values of the table are multiplied by, for a scale in every lane: 2^8 times the scale.
// An E4M3 code moved into an f16 keeps its fields, f16's exponent bias is 8 larger, and the f16
// conversion honours subnormals whatever the thread's modes: value = f16 * 2^8.
static inline __m512 nvfp4_factor(__m512i scales) {
  const __m512i halves = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi32(scales, 8), 1),
                                          _mm512_set1_epi32(0xbf80));
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves)), _mm512_set1_ps(0x1p16f));
}

// Which bytes are NaN as E4M3.
static inline __mmask64 nvfp4_nan_scales(__m512i words) {
  const __m512i magnitude = _mm512_set1_epi8(0x7f);
  return _mm512_cmpeq_epi8_mask(_mm512_and_si512(words, magnitude), magnitude);
}

}  // namespace tessera::kernels
