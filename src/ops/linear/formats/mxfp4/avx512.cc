#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGroup = 32;        // inputs per scale, 16 bytes of codes
constexpr int64_t kTableGroups = 64;  // scales are collected for so many groups at a time
// The table of values is 2^-8 too small and the scales 2^8 too large, so that scale 0 (2^-127) is a
// normal number. Scales above kLargestScale then overflow and are left to the reference.
constexpr int kBias = 8;
constexpr uint8_t kLargestScale = 254 - kBias;

// Scales of `groups` groups of all 16 rows, group-major; returns the largest.
uint8_t collect_scales(const UnpackArgs& args, int64_t groups, uint8_t* table) {
  const std::byte* scales = args.scales + args.first / kGroup;
  uint8_t largest = 0;
  for (int64_t r = 0; r < 16; ++r) {
    const std::byte* row = scales + (r < args.rows ? r : args.rows - 1) * args.scale_row_bytes;
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t scale = static_cast<uint8_t>(row[g]);
      table[g * 16 + r] = scale;
      largest = scale > largest ? scale : largest;
    }
  }
  return largest;
}

template <bool kAsPairs>
inline void unpack_groups(const UnpackArgs& args, int64_t groups, const uint8_t* scales) {
  const __m512 values =
      _mm512_mul_ps(_mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 0.0f, -0.5f,
                                   -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f),
                    _mm512_set1_ps(0x1p-8f));
  const PanelRowPointers rows = row_pointers(args, args.first / 2);
  for (int64_t g = 0; g < groups; ++g) {
    prefetch_ahead<256>(args, g * 256);
    const __m512i codes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + g * 16)));
    const __m512 scale = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(codes, _mm512_set1_epi32(kBias)), 23));
    __m512i eights[4];  // eight codes of every row, the first in the lowest nibble
    load_transposed_dwords(rows, g * 16, eights);
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) {
        // permutexvar looks at the lowest four bits only.
        const __m512i even = _mm512_srli_epi32(eights[j], static_cast<unsigned>(8 * n));
        const __m512i odd = _mm512_srli_epi32(eights[j], static_cast<unsigned>(8 * n + 4));
        store_pair(args.panel, g * 16 + j * 4 + n,
                   _mm512_mul_ps(_mm512_permutexvar_ps(even, values), scale),
                   _mm512_mul_ps(_mm512_permutexvar_ps(odd, values), scale), kAsPairs);
      }
    }
  }
}

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_mxfp4_pairs_reference : unpack_mxfp4_f32_reference;
  alignas(64) uint8_t scales[kTableGroups * 16];
  UnpackArgs left = args;
  while (left.count >= kGroup) {
    const int64_t groups = left.count / kGroup < kTableGroups ? left.count / kGroup : kTableGroups;
    if (collect_scales(left, groups, scales) <= kLargestScale) {
      unpack_groups<kAsPairs>(left, groups, scales);
    } else {
      UnpackArgs part = left;
      part.count = groups * kGroup;
      kReference(part);
    }
    left = rest_of(left, groups * kGroup, kBytes);
  }
  if (left.count > 0) {
    kReference(left);
  }
}

}  // namespace

void unpack_mxfp4_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_mxfp4_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
