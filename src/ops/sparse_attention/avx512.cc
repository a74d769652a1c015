#include <immintrin.h>

#include <cstdint>

namespace tessera {
namespace {

constexpr int64_t kKeyBlock = 8;  // latency 4 times 2 fma a cycle
constexpr int64_t kHeadBlock = 8;

using Vec = __m512;

inline Vec load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
inline Vec splat(float x) { return _mm512_set1_ps(x); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

}  // namespace
}  // namespace tessera

#include "ops/sparse_attention/kernels.inl"

namespace tessera {
const SparseAttentionKernels kSparseAttentionAvx512 = {attend};
}  // namespace tessera
