#include "ops/quantize/kernels.inl"

namespace tessera {
const QuantizeKernels kQuantizeAvx2 = {row_e4m3, row_e2m1_calibrated};
}  // namespace tessera
