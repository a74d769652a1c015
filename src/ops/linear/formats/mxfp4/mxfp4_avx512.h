// Scales of MXFP4 in AVX-512 registers. Included by *avx512.cc only; everything is static, see
// rows_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx512.h"

namespace tessera::kernels {

constexpr int64_t kMxfp4Group = 32;  // inputs per scale
// Scales above it overflow, biased as the factors are, and are left to the reference.
constexpr int kMxfp4LargestScale = 254 - kE2m1Bias;

// What the values of the table are multiplied by, for a scale in every lane.
static inline __m512 mxfp4_factor(__m512i scales) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(scales, _mm512_set1_epi32(kE2m1Bias)), 23));
}

}  // namespace tessera::kernels
