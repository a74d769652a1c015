// Values and scales of block-scaled E4M3 in AVX-512 registers. Included by *avx512.cc only;
// everything is static, see rows_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {

constexpr int64_t kFp8InputsPerBlock = 64;
constexpr int64_t kFp8Step = 32;  // inputs in 32 bytes; never crosses a scale
// An E4M3 code moved into an f16 keeps its fields, f16's exponent bias is 8 larger, and the f16
// conversion honours subnormals whatever the thread's modes: value = f16 * 2^8.
constexpr int kFp8Bias = 8;
constexpr uint8_t kFp8LargestScale = 254 - kFp8Bias;

// out[p]: the 16-bit pair of codes (2p, 2p+1) of rows 0..15 in the low half, of the pair
// (16+2p, 17+2p) in the high half. Returns false when a code is NaN.
static inline bool load_code_pairs(const PanelBlock& block, int byte, __m512i out[8]) {
  __m512i z[8], u[8];
  __m512i largest = _mm512_setzero_si512();
  for (int i = 0; i < 8; ++i) {
    const std::byte* upper = block.row[i] + byte;
    const std::byte* lower = block.row[i + 8] + byte;
    __m512i v = _mm512_castsi128_si512(load_16_bytes(upper));
    v = _mm512_inserti32x4(v, load_16_bytes(lower), 1);
    v = _mm512_inserti32x4(v, load_16_bytes(upper + 16), 2);
    z[i] = _mm512_inserti32x4(v, load_16_bytes(lower + 16), 3);
    largest = _mm512_max_epu8(largest, _mm512_and_si512(z[i], _mm512_set1_epi8(0x7f)));
  }
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm512_unpacklo_epi16(z[2 * i], z[2 * i + 1]);      // pairs 0..3 of rows 2i, 2i+1
    u[i + 4] = _mm512_unpackhi_epi16(z[2 * i], z[2 * i + 1]);  // pairs 4..7
  }
  for (int h = 0; h < 8; h += 4) {
    const __m512i a = _mm512_unpacklo_epi32(u[h], u[h + 1]);  // pairs h, h+1 of rows 0..3
    const __m512i b = _mm512_unpacklo_epi32(u[h + 2], u[h + 3]);
    const __m512i c = _mm512_unpackhi_epi32(u[h], u[h + 1]);  // pairs h+2, h+3
    const __m512i d = _mm512_unpackhi_epi32(u[h + 2], u[h + 3]);
    out[h] = _mm512_unpacklo_epi64(a, b);
    out[h + 1] = _mm512_unpackhi_epi64(a, b);
    out[h + 2] = _mm512_unpacklo_epi64(c, d);
    out[h + 3] = _mm512_unpackhi_epi64(c, d);
  }
  return _mm512_cmpeq_epi8_mask(largest, _mm512_set1_epi8(0x7f)) == 0;
}

// Codes in the high bytes of 16-bit elements to f16 of 2^-8 times the value.
static inline __m512i codes_to_f16(__m512i high_bytes) {
  return _mm512_and_si512(_mm512_srai_epi16(high_bytes, 1),
                          _mm512_set1_epi16(static_cast<short>(0xbf80)));
}

static inline __m512 load_f16(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}

static inline __m512 fp8_factor(uint8_t scale) {
  return _mm512_castsi512_ps(_mm512_set1_epi32((scale + kFp8Bias) << 23));
}

// [pair mod 8][even, odd][pair / 8][16 rows]. Through memory: the conversion of a loaded operand
// needs no shuffle, that of a register half does.
using Fp8Halves = uint16_t[8][2][2][16];

static inline void store_halves(const __m512i (&codes)[8], Fp8Halves& halves) {
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) {
    _mm512_store_si512(halves[p][0], codes_to_f16(_mm512_slli_epi16(codes[p], 8)));
    _mm512_store_si512(halves[p][1], codes_to_f16(codes[p]));
  }
}

}  // namespace tessera::kernels
