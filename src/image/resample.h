// Image.resize of Pillow for 8-bit pictures, equal to the last bit. Source: Pillow's
// src/libImaging/Resample.c; restated in the DeepSeek-V4.1 specification, section 2.4.
#pragma once

#include <cstdint>
#include <vector>

#include "image/image.h"

namespace tessera::image {

enum class Filter {
  bilinear,  // support 1
  bicubic,   // support 2, a = -0.5
  lanczos,   // support 3
};

// Both passes round to 8 bits, so their order shows in the last bits (and at hard, clipped edges).
enum class PassOrder {
  pillow13,  // vertical first when the height loses more than twice what the width loses
  pillow12,  // up to 12.3: horizontal first, always
};

// Whose arithmetic a picture is resampled with. All but opencv_cubic widen the filter when shrinking.
enum class Resampler {
  pillow13,      // Image.resize(BICUBIC)
  pillow12,      // the same with the older order of passes
  torch_uint8,   // torchvision's resize of uint8 tensors on a CPU: bicubic, antialias, 16-bit weights
  opencv_cubic,  // cv::resize(INTER_CUBIC), a = -0.75, OpenCV 4.12 without IPP
};

// Weights of one pass, integers with 22 fractional bits. Output i is
// clamp((2^21 + sum_j weight[i][j] * source[first[i] + j]) >> 22, 0, 255).
struct ResampleTaps {
  std::vector<int32_t> first;   // [output]
  std::vector<int64_t> offset;  // [output + 1], into `weight`
  std::vector<int32_t> weight;  // all outputs, one after the other
  int64_t outputs() const { return static_cast<int64_t>(first.size()); }
};

// Weights from `input` to `output` samples; the support grows when shrinking (antialias).
// Both 1 to kMaxSide.
ResampleTaps resample_taps(int64_t input, int64_t output, Filter filter);

// A pass whose size does not change is skipped. Throws Error{bad_request} when a side of `size` is
// below 1 or the result is beyond the limits of Image. `source` must not be empty.
Image resize(const Image& source, Size size, Filter filter = Filter::bicubic,
             PassOrder order = PassOrder::pillow13);

}  // namespace tessera::image
