#include "ops/activation/kernels.inl"

namespace tessera {
const ActivationKernels kActivationReference = {silu_mul_bf16, silu_mul_f32, swiglu, add_bf16};
}  // namespace tessera
