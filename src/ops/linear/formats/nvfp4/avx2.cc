#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx2.h"
#include "ops/linear/formats/nvfp4/nvfp4_format.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGroup = 16;  // inputs per scale

inline bool has_nan(__m256i scales) {
  const __m256i magnitude = _mm256_and_si256(scales, _mm256_set1_epi32(0x7f));
  const __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f));
  return _mm256_testz_si256(nan, nan) == 0;
}

// Half of the scales (the table of values is doubled). An E4M3 code moved into an f16 keeps its
// fields, f16's exponent bias is 8 larger, and the f16 conversion honours subnormals whatever the
// thread's modes: value = f16 * 2^8.
inline __m256 factors_of(__m256i scales) {
  const __m256i halves = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi32(scales, 8), 1),
                                          _mm256_set1_epi32(0xbf80));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0xd8);
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)), _mm256_set1_ps(0x1p7f));
}

// The 32 inputs from `input` of the block on, whose scales begin at byte `index` of their words.
// False, with nothing written, when a scale is NaN.
inline bool unpack_step(const PanelBlock& block, int64_t input, const int (&words)[16],
                        int64_t index, float* to) {
  const __m256i scales[4] = {scales_of(words, index), scales_of(words + 8, index),
                             scales_of(words, index + 1), scales_of(words + 8, index + 1)};
  if (has_nan(scales[0]) || has_nan(scales[1]) || has_nan(scales[2]) || has_nan(scales[3])) {
    return false;
  }
  alignas(32) int8_t looked_up[2][256];
  look_up(block, static_cast<int>(input / 2), looked_up[0], looked_up[1]);
  store_columns(looked_up, 0, 8, factors_of(scales[0]), factors_of(scales[1]), to);
  store_columns(looked_up, 8, 8, factors_of(scales[2]), factors_of(scales[3]),
                to + kGroup * kPanelRows);
  return true;
}

}  // namespace

void unpack_nvfp4_f32_avx2(const UnpackArgs& args) noexcept {
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kE2m1InputsPerBlock, kE2m1Step, kF32PanelBytes>(
      args, unpack_nvfp4_f32_reference,
      [&args, panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        alignas(32) int words[16];  // scales of 64 inputs
        for (int64_t i = 0; i < inputs; i += kE2m1Step) {
          const int64_t byte = i / kGroup % 4;
          if (byte == 0) {
            load_scale_words(args.scales + (args.first + done + i) / kGroup, args,
                             (inputs - i) / kGroup, 0, words);
          }
          if (!unpack_step(block, i, words, byte, panel + (done + i) * kPanelRows)) {
            UnpackArgs part = rest_of(args, done + i, kF32PanelBytes);
            part.count = kE2m1Step;
            unpack_nvfp4_f32_reference(part);
          }
        }
      });
}

}  // namespace tessera::kernels
