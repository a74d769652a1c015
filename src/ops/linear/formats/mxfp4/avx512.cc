#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

// One group of 32 inputs, to the panel from pair `pair` on.
template <bool kAsPairs>
inline void unpack_group(const PanelBlock& block, int byte, __m512i scales, void* panel,
                         int64_t pair) {
  const __m512 values = mxfp4_table();
  const __m512 factor = mxfp4_factor(scales);
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
  unpack_blocks<kMxfp4InputsPerBlock, kMxfp4Group, kBytes>(
      args, kReference,
      [&args, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        __m512i words = load_mxfp4_scales(args.scales + (args.first + done) / kMxfp4Group,
                                          args.scale_row_bytes, args.rows, inputs / kMxfp4Group);
        for (int64_t i = 0; i < inputs; i += kMxfp4Group) {
          const __m512i scales = _mm512_and_si512(words, _mm512_set1_epi32(0xff));
          words = _mm512_srli_epi32(words, 8);
          if (_mm512_cmpgt_epi32_mask(scales, _mm512_set1_epi32(kMxfp4LargestScale)) == 0)
              [[likely]] {
            unpack_group<kAsPairs>(block, static_cast<int>(i / 2), scales, panel, (done + i) / 2);
          } else {
            UnpackArgs part = rest_of(args, done + i, kBytes);
            part.count = kMxfp4Group;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_mxfp4_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_mxfp4_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
