#include "ops/hyper_connections/kernels.inl"

namespace tessera {
const HyperConnectionKernels kHyperConnectionAvx512 = {project};
}  // namespace tessera
