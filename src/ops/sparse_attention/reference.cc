#include <cstdint>

namespace tessera {
namespace {

constexpr int64_t kKeyBlock = 4;
constexpr int64_t kHeadBlock = 4;

struct Vec {
  float lane[16];
};

inline Vec load(const float* from) {
  Vec v;
  for (int64_t l = 0; l < 16; ++l) {
    v.lane[l] = from[l];
  }
  return v;
}
inline void store(float* to, const Vec& v) {
  for (int64_t l = 0; l < 16; ++l) {
    to[l] = v.lane[l];
  }
}
inline Vec splat(float x) {
  Vec v;
  for (int64_t l = 0; l < 16; ++l) {
    v.lane[l] = x;
  }
  return v;
}
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  Vec v;
  for (int64_t l = 0; l < 16; ++l) {
    v.lane[l] = __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]);
  }
  return v;
}

}  // namespace
}  // namespace tessera

#include "ops/sparse_attention/kernels.inl"

namespace tessera {
const SparseAttentionKernels kSparseAttentionReference = {attend};
}  // namespace tessera
