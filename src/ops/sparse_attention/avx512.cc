#include <cstdint>

namespace tessera {
namespace {
constexpr int64_t kHeadBlock = 8;
}
}  // namespace tessera

#include "ops/sparse_attention/kernels.inl"

namespace tessera {
const SparseAttentionKernels kSparseAttentionAvx512 = {attend};
}  // namespace tessera
