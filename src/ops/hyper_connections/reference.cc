#include "ops/hyper_connections/kernels.inl"

namespace tessera {
const HyperConnectionKernels kHyperConnectionReference = {project};
}  // namespace tessera
