#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_avx512.h"
#include "ops/linear/formats/nvfp4/nvfp4_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 128;
constexpr int64_t kGroup = 16;  // inputs per scale
constexpr int64_t kStep = 32;   // inputs in 16 bytes, two scales

// Scales times 2^8 (the table of values is 2^-8 too small). An E4M3 code moved into an f16 keeps
// its fields, f16's exponent bias is 8 larger, and the f16 conversion honours subnormals whatever
// the thread's modes: value = f16 * 2^8.
inline __m512 factors_of(__m512i scales) {
  const __m512i halves = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi32(scales, 8), 1),
                                          _mm512_set1_epi32(0xbf80));
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves)), _mm512_set1_ps(0x1p16f));
}

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_nvfp4_pairs_reference : unpack_nvfp4_f32_reference;
  const __m512i byte_mask = _mm512_set1_epi32(0xff);
  const __m512i magnitude = _mm512_set1_epi32(0x7f);
  unpack_blocks<kInputsPerBlock, kStep, kBytes>(
      args, kReference,
      [&, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        __m512i words = _mm512_setzero_si512();  // scales of 64 inputs
        for (int64_t i = 0; i < inputs; i += kStep) {
          words = i % 64 == 0
                      ? load_mxfp4_scales(args.scales + (args.first + done + i) / kGroup,
                                          args.scale_row_bytes, args.rows, (inputs - i) / kGroup)
                      : _mm512_srli_epi32(words, 16);
          const __m512i first = _mm512_and_si512(words, byte_mask);
          const __m512i second = _mm512_and_si512(_mm512_srli_epi32(words, 8), byte_mask);
          const __mmask16 live = static_cast<__mmask16>((1U << args.rows) - 1U);
          const __mmask16 nan =
              _mm512_mask_cmpeq_epi32_mask(live, _mm512_and_si512(first, magnitude), magnitude) |
              _mm512_mask_cmpeq_epi32_mask(live, _mm512_and_si512(second, magnitude), magnitude);
          if (nan == 0) [[likely]] {
            const __m512 factors[2] = {factors_of(first), factors_of(second)};
            unpack_e2m1<kAsPairs>(block, static_cast<int>(i / 2), factors, panel, (done + i) / 2);
          } else {
            UnpackArgs part = rest_of(args, done + i, kBytes);
            part.count = kStep;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_nvfp4_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_nvfp4_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
