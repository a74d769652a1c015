#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGroup = 32;        // inputs per scale, 16 bytes of codes
constexpr int64_t kTableGroups = 64;  // scales are collected for so many groups at a time
// The table holds twice the value, as an integer, and the scales are halved. Scales whose half is
// no normal number, and NaN, are left to the reference.
constexpr uint8_t kSmallestScale = 2;
constexpr uint8_t kLargestScale = 254;

// Half of every scale of `groups` groups of all 16 rows, group-major. False: not all in range.
bool collect_scales(const UnpackArgs& args, int64_t groups, float* table) {
  const std::byte* scales = args.scales + args.first / kGroup;
  bool in_range = true;
  for (int64_t r = 0; r < 16; ++r) {
    const std::byte* row = scales + (r < args.rows ? r : args.rows - 1) * args.scale_row_bytes;
    for (int64_t g = 0; g < groups; ++g) {
      const uint32_t scale = static_cast<uint32_t>(row[g]);
      in_range = in_range && scale >= kSmallestScale && scale <= kLargestScale;
      const uint32_t bits = (scale - 1) << 23;
      __builtin_memcpy(table + g * 16 + r, &bits, sizeof(bits));
    }
  }
  return in_range;
}

// Twice the value of every code of 16 rows x 16 bytes: out[column][row], low nibbles then high.
inline void look_up(const PanelRowPointers& rows, int64_t byte, int8_t low[256], int8_t high[256]) {
  const __m256i values = _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
                                          0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m256i nibble = _mm256_set1_epi8(0x0f);
  __m256i v[8], u[8];
  for (int i = 0; i < 8; ++i) {
    v[i] = load_two_rows(rows.row[i] + byte, rows.row[i + 8] + byte);
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

inline void unpack_groups(const UnpackArgs& args, int64_t groups, const float* scales) {
  const PanelRowPointers rows = row_pointers(args, args.first / 2);
  alignas(32) int8_t looked_up[2][256];
  float* panel = static_cast<float*>(args.panel);
  for (int64_t g = 0; g < groups; ++g) {
    prefetch_ahead<256>(args, g * 256);
    look_up(rows, g * 16, looked_up[0], looked_up[1]);
    const __m256 scale_low = _mm256_load_ps(scales + g * 16);
    const __m256 scale_high = _mm256_load_ps(scales + g * 16 + 8);
    float* to = panel + g * kGroup * kPanelRows;
    for (int column = 0; column < 16; ++column) {
      // Columns 2c and 2c+1 stand in one register: rows 0-7 of both, then rows 8-15 of both.
      const int at = (column >> 1) * 32 + (column & 1) * 8;
      for (int parity = 0; parity < 2; ++parity) {
        const int8_t* from = looked_up[parity] + at;
        _mm256_store_ps(to, _mm256_mul_ps(load_8_as_float(from), scale_low));
        _mm256_store_ps(to + 8, _mm256_mul_ps(load_8_as_float(from + 16), scale_high));
        to += kPanelRows;
      }
    }
  }
}

}  // namespace

void unpack_mxfp4_f32_avx2(const UnpackArgs& args) noexcept {
  alignas(32) float scales[kTableGroups * 16];
  UnpackArgs left = args;
  while (left.count >= kGroup) {
    const int64_t groups = left.count / kGroup < kTableGroups ? left.count / kGroup : kTableGroups;
    if (collect_scales(left, groups, scales)) {
      unpack_groups(left, groups, scales);
    } else {
      UnpackArgs part = left;
      part.count = groups * kGroup;
      unpack_mxfp4_f32_reference(part);
    }
    left = rest_of(left, groups * kGroup, kF32PanelBytes);
  }
  if (left.count > 0) {
    unpack_mxfp4_f32_reference(left);
  }
}

}  // namespace tessera::kernels
