#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 128;
constexpr int64_t kGroup = 32;  // inputs per scale, 16 bytes of codes
// The table holds twice the value, as an integer, and the scales are halved. Scales whose half is
// no normal number, and NaN, are left to the reference.
constexpr int kSmallestScale = 2;
constexpr int kLargestScale = 254;

inline int load_word(const std::byte* from, int64_t bytes) {
  int word = 0;
  __builtin_memcpy(&word, from, bytes >= 4 ? 4 : static_cast<size_t>(bytes));
  return word;
}

// Up to four scales of all 16 rows from group `group` of args on, the first in the lowest byte of
// each word.
inline void load_scales(const UnpackArgs& args, int64_t group, int64_t count, int words[16]) {
  const std::byte* from = args.scales + args.first / kGroup + group;
  if (args.rows == kPanelRows && count >= 4) [[likely]] {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {
      words[r] = load_word(from, 4);
      from += args.scale_row_bytes;
    }
  } else {
    for (int64_t r = 0; r < 16; ++r) {
      words[r] = r < args.rows ? load_word(from + r * args.scale_row_bytes, count) : 0x7f7f7f7f;
    }
  }
}

// Scales of eight rows, from byte `index` of their words.
inline __m256i scales_of(const int* words, int64_t index) {
  const __m256i all = _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
  return _mm256_and_si256(_mm256_srl_epi32(all, _mm_cvtsi64_si128(8 * index)),
                          _mm256_set1_epi32(0xff));
}

inline bool are_in_range(__m256i scales) {
  const __m256i outside =
      _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(kSmallestScale), scales),
                      _mm256_cmpgt_epi32(scales, _mm256_set1_epi32(kLargestScale)));
  return _mm256_testz_si256(outside, outside) != 0;
}

// Half of the scale as a float.
inline __m256 factors_of(__m256i scales) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(scales, _mm256_set1_epi32(1)), 23));
}

// Twice the value of every code of 16 rows x 16 bytes: out[column][row], low nibbles then high.
inline void look_up(const PanelBlock& block, int byte, int8_t low[256], int8_t high[256]) {
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

inline __m256 load_8_as_float(const int8_t* from) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

// One group of 32 inputs.
inline void unpack_group(const PanelBlock& block, int byte, __m256 low, __m256 high, float* to) {
  alignas(32) int8_t looked_up[2][256];
  look_up(block, byte, looked_up[0], looked_up[1]);
  for (int column = 0; column < 16; ++column) {
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

}  // namespace

void unpack_mxfp4_f32_avx2(const UnpackArgs& args) noexcept {
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kGroup, kF32PanelBytes>(
      args, unpack_mxfp4_f32_reference,
      [&args, panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        alignas(32) int words[16];
        load_scales(args, done / kGroup, inputs / kGroup, words);
        for (int64_t i = 0; i < inputs; i += kGroup) {
          const __m256i low = scales_of(words, i / kGroup);
          const __m256i high = scales_of(words + 8, i / kGroup);
          if (are_in_range(low) && are_in_range(high)) {
            unpack_group(block, static_cast<int>(i / 2), factors_of(low), factors_of(high),
                         panel + (done + i) * kPanelRows);
          } else {
            UnpackArgs part = rest_of(args, done + i, kF32PanelBytes);
            part.count = kGroup;
            unpack_mxfp4_f32_reference(part);
          }
        }
      });
}

}  // namespace tessera::kernels
