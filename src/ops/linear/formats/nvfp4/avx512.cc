#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx512.h"
#include "ops/linear/formats/nvfp4/nvfp4_avx512.h"
#include "ops/linear/formats/nvfp4/nvfp4_format.h"

namespace tessera::kernels {
namespace {

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_nvfp4_pairs_reference : unpack_nvfp4_f32_reference;
  const __m512i byte_mask = _mm512_set1_epi32(0xff);
  unpack_blocks<kE2m1InputsPerBlock, kE2m1Step, kBytes>(
      args, kReference,
      [&, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        __m512i words = _mm512_setzero_si512();  // scales of 64 inputs
        for (int64_t i = 0; i < inputs; i += kE2m1Step) {
          words = i % 64 == 0 ? load_scale_words(
                                    args.scales + (args.first + done + i) / kNvfp4Group,
                                    args.scale_row_bytes, args.rows, (inputs - i) / kNvfp4Group)
                              : _mm512_srli_epi32(words, 16);
          const __m512i first = _mm512_and_si512(words, byte_mask);
          const __m512i second = _mm512_and_si512(_mm512_srli_epi32(words, 8), byte_mask);
          // Two scales of every row.
          const __mmask64 nan = nvfp4_nan_scales(words) & 0x3333333333333333U;
          if (nan == 0) [[likely]] {
            const __m512 factors[2] = {nvfp4_factor(first), nvfp4_factor(second)};
            unpack_e2m1<kAsPairs>(block, static_cast<int>(i / 2), factors, panel, (done + i) / 2);
          } else {
            UnpackArgs part = rest_of(args, done + i, kBytes);
            part.count = kE2m1Step;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_nvfp4_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_nvfp4_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
