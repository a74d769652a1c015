#include <immintrin.h>

#include <cstdint>

namespace tessera {
namespace {

constexpr int64_t kKeyBlock = 4;  // 8 of 16 registers
constexpr int64_t kHeadBlock = 4;

struct Vec {
  __m256 low, high;
};

inline Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float* to, const Vec& v) {
  _mm256_storeu_ps(to, v.low);
  _mm256_storeu_ps(to + 8, v.high);
}
inline Vec splat(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

}  // namespace
}  // namespace tessera

#include "ops/sparse_attention/kernels.inl"

namespace tessera {
const SparseAttentionKernels kSparseAttentionAvx2 = {attend};
}  // namespace tessera
