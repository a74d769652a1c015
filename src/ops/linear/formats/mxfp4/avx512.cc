#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"

namespace tessera::kernels {
namespace {

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_mxfp4_pairs_reference : unpack_mxfp4_f32_reference;
  unpack_blocks<kE2m1InputsPerBlock, kE2m1Step, kBytes>(
      args, kReference,
      [&args, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        __m512i words = load_scale_words(args.scales + (args.first + done) / kMxfp4Group,
                                         args.scale_row_bytes, args.rows, inputs / kMxfp4Group);
        for (int64_t i = 0; i < inputs; i += kMxfp4Group) {
          const __m512i scales = _mm512_and_si512(words, _mm512_set1_epi32(0xff));
          words = _mm512_srli_epi32(words, 8);
          if (_mm512_cmpgt_epi32_mask(scales, _mm512_set1_epi32(kMxfp4LargestScale)) == 0)
              [[likely]] {
            const __m512 factor = mxfp4_factor(scales);
            unpack_e2m1<kAsPairs>(block, static_cast<int>(i / 2), {factor, factor}, panel,
                                  (done + i) / 2);
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
