// Values of E2M1 codes and words of scales in AVX-512 registers. Included by *avx512.cc only;
// everything is static, see rows_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {

constexpr int64_t kE2m1InputsPerBlock = 128;
constexpr int64_t kE2m1Step = 32;  // inputs in 16 bytes
// The table of values is 2^-8 too small and factors are 2^8 too large, so that MXFP4's scale 0
// (2^-127) is a normal number.
constexpr int kE2m1Bias = 8;

static inline __m512 e2m1_table() {
  return _mm512_mul_ps(_mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 0.0f, -0.5f,
                                      -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f),
                       _mm512_set1_ps(0x1p-8f));
}

static inline int load_word(const std::byte* from, int64_t bytes) {
  int word = 0;
  __builtin_memcpy(&word, from, bytes >= 4 ? 4 : static_cast<size_t>(bytes));
  return word;
}

// Up to four scales of all 16 rows from `from` on, the first in the lowest byte of each lane. Those
// of rows that do not exist are 0.
static inline __m512i load_scale_words(const std::byte* from, int64_t row_bytes, int64_t rows,
                                       int64_t count) {
  if (rows == kPanelRows && count >= 4) [[likely]] {
    // Put together in registers: sixteen small stores would hold up the load of their sum.
    __m128i quads[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      quads[i] =
          _mm_setr_epi32(load_word(from, 4), load_word(from + row_bytes, 4),
                         load_word(from + 2 * row_bytes, 4), load_word(from + 3 * row_bytes, 4));
      from += 4 * row_bytes;
    }
    const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(quads[0]), quads[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(low, quads[2], 2), quads[3], 3);
  }
  alignas(64) int words[16];
  for (int64_t r = 0; r < 16; ++r) {
    words[r] = r < rows ? load_word(from + r * row_bytes, count) : 0;
  }
  return _mm512_load_si512(words);
}

// 32 inputs to the panel from pair `pair` on; the first 16 of them have factors[0].
template <bool kAsPairs>
static inline void unpack_e2m1(const PanelBlock& block, int byte, const __m512 (&factors)[2],
                               void* panel, int64_t pair) {
  const __m512 values = e2m1_table();
  __m512i eights[4];  // eight codes of every row, the first in the lowest nibble
  load_transposed_dwords(block, byte, eights);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      // permutexvar looks at the lowest four bits only.
      const __m512i even = _mm512_srli_epi32(eights[j], static_cast<unsigned>(8 * n));
      const __m512i odd = _mm512_srli_epi32(eights[j], static_cast<unsigned>(8 * n + 4));
      store_pair(panel, pair + j * 4 + n,
                 _mm512_mul_ps(_mm512_permutexvar_ps(even, values), factors[j / 2]),
                 _mm512_mul_ps(_mm512_permutexvar_ps(odd, values), factors[j / 2]), kAsPairs);
    }
  }
}

}  // namespace tessera::kernels
