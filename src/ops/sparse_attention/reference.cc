#include <cstdint>

namespace tessera {
namespace {
constexpr int64_t kHeadBlock = 4;
}
}  // namespace tessera

#include "ops/sparse_attention/kernels.inl"

namespace tessera {
const SparseAttentionKernels kSparseAttentionReference = {attend};
}  // namespace tessera
