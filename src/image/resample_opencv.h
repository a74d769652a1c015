// cv::resize of 8-bit pictures, OpenCV 4.12 without IPP, equal to the last bit. Sources:
// DeepSeek-V4.1 specification, section 2.7; OpenCV's modules/imgproc/src/resize.cpp.
#pragma once

#include "image/image.h"

namespace tessera::image {

// INTER_CUBIC: four taps with a = -0.75, no antialiasing: large shrinks alias. Errors as
// resample().
Image resize_opencv_cubic(const Image& source, Size size);

// INTER_AREA: every pixel of the result is the mean of the area it covers. No side may grow; else
// Error{bad_request}.
Image shrink_opencv_area(const Image& source, Size size);

}  // namespace tessera::image
