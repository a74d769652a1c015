#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 128;
constexpr int64_t kGroup = 32;  // inputs per scale, 16 bytes of codes
// The table of values is 2^-8 too small and the scales 2^8 too large, so that scale 0 (2^-127) is a
// normal number. Scales above kLargestScale then overflow and are left to the reference.
constexpr int kBias = 8;
constexpr int kLargestScale = 254 - kBias;

inline int load_word(const std::byte* from, int64_t bytes) {
  int word = 0;
  __builtin_memcpy(&word, from, bytes >= 4 ? 4 : static_cast<size_t>(bytes));
  return word;
}

// Up to four scales of all 16 rows from group `group` of args on, the first in the lowest byte of
// each lane.
inline __m512i load_scales(const UnpackArgs& args, int64_t group, int64_t count) {
  const std::byte* from = args.scales + args.first / kGroup + group;
  if (args.rows == kPanelRows && count >= 4) [[likely]] {
    // Put together in registers: sixteen small stores would hold up the load of their sum.
    const int64_t step = args.scale_row_bytes;
    __m128i quads[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      quads[i] = _mm_setr_epi32(load_word(from, 4), load_word(from + step, 4),
                                load_word(from + 2 * step, 4), load_word(from + 3 * step, 4));
      from += 4 * step;
    }
    const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(quads[0]), quads[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(low, quads[2], 2), quads[3], 3);
  }
  alignas(64) int words[16];
  for (int64_t r = 0; r < 16; ++r) {
    words[r] = r < args.rows ? load_word(from + r * args.scale_row_bytes, count) : 0x7f7f7f7f;
  }
  return _mm512_load_si512(words);
}

// One group of 32 inputs, to the panel from pair `pair` on.
template <bool kAsPairs>
inline void unpack_group(const PanelBlock& block, int byte, __m512i scales, void* panel,
                         int64_t pair) {
  const __m512 values =
      _mm512_mul_ps(_mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 0.0f, -0.5f,
                                   -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f),
                    _mm512_set1_ps(0x1p-8f));
  const __m512 factor = _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(scales, _mm512_set1_epi32(kBias)), 23));
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
                 _mm512_mul_ps(_mm512_permutexvar_ps(even, values), factor),
                 _mm512_mul_ps(_mm512_permutexvar_ps(odd, values), factor), kAsPairs);
    }
  }
}

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_mxfp4_pairs_reference : unpack_mxfp4_f32_reference;
  unpack_blocks<kInputsPerBlock, kGroup, kBytes>(
      args, kReference,
      [&args, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        __m512i words = load_scales(args, done / kGroup, inputs / kGroup);
        for (int64_t i = 0; i < inputs; i += kGroup) {
          const __m512i scales = _mm512_and_si512(words, _mm512_set1_epi32(0xff));
          words = _mm512_srli_epi32(words, 8);
          if (_mm512_cmpgt_epi32_mask(scales, _mm512_set1_epi32(kLargestScale)) == 0) [[likely]] {
            unpack_group<kAsPairs>(block, static_cast<int>(i / 2), scales, panel, (done + i) / 2);
          } else {
            UnpackArgs part = rest_of(args, done + i, kBytes);
            part.count = kGroup;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_mxfp4_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_mxfp4_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
