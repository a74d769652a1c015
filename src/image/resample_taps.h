// Weights of separable resamplers that round to 8 bits after each pass: Pillow's and torchvision's.
#pragma once

#include <cstdint>
#include <vector>

#include "image/resample.h"

namespace tessera::image {

// Weights of one pass, integers with `bits` fractional bits. Output i is
// clamp((2^(bits-1) + sum_j weight[i][j] * source[first[i] + j]) >> bits, 0, 255).
// No sum leaves int32, and first[] never decreases.
struct ResampleTaps {
  std::vector<int32_t> first;   // [output]
  std::vector<int64_t> offset;  // [output + 1], into `weight`
  std::vector<int32_t> weight;  // all outputs, one after the other
  int bits = 0;
  int64_t outputs() const { return static_cast<int64_t>(first.size()); }
};

// Pillow's weights from `input` to `output` samples, 22 bits; the support grows when shrinking
// (antialias). Both 1 to kMaxSide.
ResampleTaps resample_taps(int64_t input, int64_t output, Filter filter);

// torchvision's bicubic weights for uint8 on a CPU: the same in 16 bits, with the most fractional
// bits that the largest weight leaves room for. Qwen3-VL specification, section 2.3, variant I.
ResampleTaps torch_taps(int64_t input, int64_t output);

}  // namespace tessera::image
