// Runs the passes of a separable resampler, row by row: what lies between two passes is a few rows,
// never a picture. Internal to the resamplers and their tests.
#pragma once

#include "base/cpu.h"
#include "image/image.h"
#include "image/kernels/kernels.h"
#include "image/resample_taps.h"

namespace tessera::image {

// At least one pass; null for one that is skipped.
struct ResamplePasses {
  const ResampleTaps* across = nullptr;
  const ResampleTaps* down = nullptr;
  bool is_down_first = false;
};

const ResampleKernels& resample_kernels(IsaLevel level);

// The taps must have been made for the sides of `source`. Single-threaded. Throws
// Error{bad_request} when the result is beyond the limits of Image.
Image run_passes(const Image& source, const ResamplePasses& passes, const ResampleKernels& kernels);

}  // namespace tessera::image
