// Values of E2M1 codes and words of scales in AVX2 registers. Included by *avx2.cc only; everything
// is static, see rows_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {

constexpr int64_t kE2m1InputsPerBlock = 128;
constexpr int64_t kE2m1Step = 32;  // inputs in 16 bytes

static inline int load_word(const std::byte* from, int64_t bytes) {
  int word = 0;
  __builtin_memcpy(&word, from, bytes >= 4 ? 4 : static_cast<size_t>(bytes));
  return word;
}

// Up to four scales of all 16 rows from `from` on, the first in the lowest byte of each word. Rows
// that do not exist get `fill`.
static inline void load_scale_words(const std::byte* from, const UnpackArgs& args, int64_t count,
                                    int fill, int words[16]) {
  if (args.rows == kPanelRows && count >= 4) [[likely]] {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {
      words[r] = load_word(from, 4);
      from += args.scale_row_bytes;
    }
  } else {
    for (int64_t r = 0; r < 16; ++r) {
      words[r] = r < args.rows ? load_word(from + r * args.scale_row_bytes, count) : fill;
    }
  }
}

// Scales of eight rows, from byte `index` of their words.
static inline __m256i scales_of(const int* words, int64_t index) {
  const __m256i all = _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
  return _mm256_and_si256(_mm256_srl_epi32(all, _mm_cvtsi64_si128(8 * index)),
                          _mm256_set1_epi32(0xff));
}

// Twice the value of every code of 16 rows x 16 bytes: out[column][row], low nibbles then high.
static inline void look_up(const PanelBlock& block, int byte, int8_t low[256], int8_t high[256]) {
  const __m256i values = _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
                                          0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m256i nibble = _mm256_set1_epi8(0x0f);
  __m256i v[8], u[8];
  for (int i = 0; i < 8; ++i) {
    v[i] = load_two_rows(block.row[i] + byte, block.row[i + 8] + byte);
  }
  // Transpose bytes inside each lane: afterwards register c holds columns 2c and 2c+1, and each
  // lane eight rows.
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm256_unpacklo_epi8(v[2 * i], v[2 * i + 1]);
    u[i + 4] = _mm256_unpackhi_epi8(v[2 * i], v[2 * i + 1]);
  }
  for (int h = 0; h < 8; h += 4) {
    v[h] = _mm256_unpacklo_epi16(u[h], u[h + 1]);
    v[h + 1] = _mm256_unpacklo_epi16(u[h + 2], u[h + 3]);
    v[h + 2] = _mm256_unpackhi_epi16(u[h], u[h + 1]);
    v[h + 3] = _mm256_unpackhi_epi16(u[h + 2], u[h + 3]);
  }
  for (int c = 0; c < 8; c += 2) {
    u[c] = _mm256_unpacklo_epi32(v[c], v[c + 1]);
    u[c + 1] = _mm256_unpackhi_epi32(v[c], v[c + 1]);
  }
  for (int c = 0; c < 8; ++c) {
    const __m256i lows = _mm256_shuffle_epi8(values, _mm256_and_si256(u[c], nibble));
    const __m256i highs =
        _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(u[c], 4), nibble));
    _mm256_store_si256(reinterpret_cast<__m256i*>(low + c * 32), lows);
    _mm256_store_si256(reinterpret_cast<__m256i*>(high + c * 32), highs);
  }
}

static inline __m256 load_8_as_float(const int8_t* from) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

// Inputs of columns [first_column, first_column + columns) of what look_up() wrote, two inputs per
// column; low and high are the factors of rows 0-7 and 8-15.
static inline void store_columns(const int8_t (&looked_up)[2][256], int first_column, int columns,
                                 __m256 low, __m256 high, float* to) {
  for (int column = first_column; column < first_column + columns; ++column) {
    // Columns 2c and 2c+1 stand in one register: rows 0-7 of both, then rows 8-15 of both.
    const int at = (column >> 1) * 32 + (column & 1) * 8;
    for (int parity = 0; parity < 2; ++parity) {
      const int8_t* from = looked_up[parity] + at;
      _mm256_store_ps(to, _mm256_mul_ps(load_8_as_float(from), low));
      _mm256_store_ps(to + 8, _mm256_mul_ps(load_8_as_float(from + 16), high));
      to += kPanelRows;
    }
  }
}

}  // namespace tessera::kernels
