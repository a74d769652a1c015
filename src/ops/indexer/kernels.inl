// One source for every level; included by reference.cc, avx2.cc and avx512.cc.
#include "ops/indexer/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

inline float rounded(float x, bool is_rounded) {
  return is_rounded ? widen_bf16(narrow_bf16(x)) : x;
}

void score16(const uint16_t* q, const uint16_t* weights, int64_t heads, int64_t head_dim,
             const float* keys, bool is_rounded, float* out) noexcept {
  float sum[16] = {};
  for (int64_t h = 0; h < heads; ++h) {
    const uint16_t* head = q + h * head_dim;
    float dot[16] = {};
    for (int64_t i = 0; i + 1 < head_dim; i += 2) {
      const float odd = widen_bf16(head[i + 1]);
      const float even = widen_bf16(head[i]);
      for (int64_t l = 0; l < 16; ++l) {
        dot[l] = __builtin_fmaf(odd, keys[(i + 1) * 16 + l], dot[l]);
      }
      for (int64_t l = 0; l < 16; ++l) {
        dot[l] = __builtin_fmaf(even, keys[i * 16 + l], dot[l]);
      }
    }
    const float weight = widen_bf16(weights[h]);
    for (int64_t l = 0; l < 16; ++l) {
      const float s = rounded(dot[l], is_rounded);
      sum[l] += rounded((s > 0.0f ? s : 0.0f) * weight, is_rounded);
    }
  }
  for (int64_t l = 0; l < 16; ++l) {
    out[l] = rounded(sum[l], is_rounded);
  }
}

}  // namespace
}  // namespace tessera
