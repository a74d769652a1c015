#include "ops/hyper_connections/kernels.inl"

namespace tessera {
const HyperConnectionKernels kHyperConnectionAvx2 = {project};
}  // namespace tessera
