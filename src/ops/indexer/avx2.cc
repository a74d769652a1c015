#include "ops/indexer/kernels.inl"

namespace tessera {
const IndexerKernels kIndexerAvx2 = {score16};
}  // namespace tessera
