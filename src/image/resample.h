// Resizing of 8-bit pictures as other programs do it, equal to the last bit. Sources: Pillow's
// src/libImaging/Resample.c, restated in the DeepSeek-V4.1 specification, section 2.4; the
// Qwen3-VL specification, section 2.3.
#pragma once

#include <cstdint>

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

// Whose arithmetic a picture is resampled with. All but opencv_cubic widen the filter when
// shrinking.
enum class Resampler {
  pillow13,      // Image.resize(BICUBIC)
  pillow12,      // the same with the older order of passes
  torch_uint8,   // torchvision's resize of uint8 tensors on a CPU: bicubic, antialias, 16-bit
                 // weights
  opencv_cubic,  // cv::resize(INTER_CUBIC), a = -0.75, OpenCV 4.12 without IPP
};

// All: `source` must not be empty. Throw Error{bad_request} when a side of `size` is below 1 or the
// result is beyond the limits of Image. Single-threaded; the bits do not depend on the processor.

Image resample(const Image& source, Size size, Resampler resampler);

// Pillow's Image.resize. A pass whose size does not change is skipped.
Image resize(const Image& source, Size size, Filter filter = Filter::bicubic,
             PassOrder order = PassOrder::pillow13);

}  // namespace tessera::image
