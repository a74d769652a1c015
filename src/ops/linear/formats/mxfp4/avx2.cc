#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_avx2.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGroup = 32;  // inputs per scale
// The table holds twice the value, as an integer, and the scales are halved. Scales whose half is
// no normal number, and NaN, are left to the reference.
constexpr int kSmallestScale = 2;
constexpr int kLargestScale = 254;
constexpr int kNoScales = 0x7f7f7f7f;

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

}  // namespace

void unpack_mxfp4_f32_avx2(const UnpackArgs& args) noexcept {
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kE2m1InputsPerBlock, kE2m1Step, kF32PanelBytes>(
      args, unpack_mxfp4_f32_reference,
      [&args, panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        alignas(32) int words[16];
        load_scale_words(args.scales + (args.first + done) / kGroup, args, inputs / kGroup,
                         kNoScales, words);
        for (int64_t i = 0; i < inputs; i += kGroup) {
          const __m256i low = scales_of(words, i / kGroup);
          const __m256i high = scales_of(words + 8, i / kGroup);
          if (are_in_range(low) && are_in_range(high)) {
            alignas(32) int8_t looked_up[2][256];
            look_up(block, static_cast<int>(i / 2), looked_up[0], looked_up[1]);
            store_columns(looked_up, 0, 16, factors_of(low), factors_of(high),
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
