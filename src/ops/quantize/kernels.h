// Kernels of the rules of linears, one table per level.
#pragma once

#include <cstdint>

namespace tessera {

struct QuantizeKernels {
  // One row of bf16 bits through e4m3_e8m0_32 and back; y may be x.
  void (*row_e4m3)(const uint16_t* x, int64_t width, uint16_t* y) noexcept;
  // One row by quantize_e2m1_calibrated's rule; y may be x.
  void (*row_e2m1_calibrated)(const uint16_t* x, int64_t width, float input_scale,
                              uint16_t* y) noexcept;
};

extern const QuantizeKernels kQuantizeReference;
extern const QuantizeKernels kQuantizeAvx2;
extern const QuantizeKernels kQuantizeAvx512;

}  // namespace tessera
