#include "ops/indexer/kernels.inl"

namespace tessera {
const IndexerKernels kIndexerReference = {score16};
}  // namespace tessera
