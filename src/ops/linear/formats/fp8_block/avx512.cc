#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/fp8_block/fp8_block_avx512.h"
#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

// 32 inputs from `byte` on to the panel from pair `pair` on. False, with nothing written, when a
// code is NaN.
template <bool kAsPairs>
inline bool unpack_32(const PanelBlock& block, int byte, __m512 scale, void* panel, int64_t pair) {
  __m512i codes[8];
  if (!load_code_pairs(block, byte, codes)) {
    return false;
  }
  alignas(64) Fp8Halves halves;
  store_halves(codes, halves);
  __asm__ volatile("" : "+m"(halves));
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) {
      store_pair(panel, pair + h * 8 + p, _mm512_mul_ps(load_f16(halves[p][0][h]), scale),
                 _mm512_mul_ps(load_f16(halves[p][1][h]), scale), kAsPairs);
    }
  }
  return true;
}

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_fp8_block_pairs_reference : unpack_fp8_block_f32_reference;
  unpack_blocks<kFp8InputsPerBlock, kFp8Step, kBytes>(
      args, kReference,
      [&args, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kFp8Step) {
          const int64_t input = done + i;
          const uint8_t scale =
              static_cast<uint8_t>(args.scales[(args.first + input) / args.block]);
          const __m512 factor = fp8_factor(scale);
          if (scale > kFp8LargestScale ||
              !unpack_32<kAsPairs>(block, static_cast<int>(i), factor, panel, input / 2)) {
            UnpackArgs part = rest_of(args, input, kBytes);
            part.count = kFp8Step;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_fp8_block_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_fp8_block_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
