#pragma once

#include <cstdint>

namespace tessera {

// One row each; bf16 as bits.
struct ActivationKernels {
  void (*silu_mul_bf16)(const uint16_t* x, int64_t width, uint16_t* y) noexcept;
  void (*silu_mul_f32)(const float* x, int64_t width, float* y) noexcept;
  void (*swiglu)(const uint16_t* gate, const uint16_t* up, float weight, int64_t width, float limit,
                 uint16_t* y) noexcept;
  void (*add_bf16)(uint16_t* x, const uint16_t* y, int64_t count) noexcept;
};

extern const ActivationKernels kActivationReference;
extern const ActivationKernels kActivationAvx2;
extern const ActivationKernels kActivationAvx512;

}  // namespace tessera
