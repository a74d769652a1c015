#include "ops/quantize/kernels.inl"

namespace tessera {
const QuantizeKernels kQuantizeReference = {row_e4m3, row_e2m1_calibrated};
}  // namespace tessera
