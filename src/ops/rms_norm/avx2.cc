#include "ops/rms_norm/kernels.inl"

namespace tessera {
const RmsNormKernels kRmsNormAvx2 = {rstd_bf16, row_bf16, row_f32};
}  // namespace tessera
