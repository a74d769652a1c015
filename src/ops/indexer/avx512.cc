#include "ops/indexer/kernels.inl"

namespace tessera {
const IndexerKernels kIndexerAvx512 = {score16};
}  // namespace tessera
