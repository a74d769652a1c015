#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// One row each. weight: bf16 bits at any alignment.
struct RmsNormKernels {
  float (*rstd_bf16)(const uint16_t* x, int64_t width, float eps) noexcept;
  void (*row_bf16)(const uint16_t* x, const std::byte* weight, int64_t width, float eps,
                   uint16_t* y) noexcept;
  void (*row_f32)(const float* x, const std::byte* weight, int64_t width, float eps,
                  float* y) noexcept;
};

extern const RmsNormKernels kRmsNormReference;
extern const RmsNormKernels kRmsNormAvx2;
extern const RmsNormKernels kRmsNormAvx512;

}  // namespace tessera
