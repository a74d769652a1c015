#pragma once

#include <cstdint>

namespace tessera {

constexpr int64_t kHeadLanes = 16;

// One query, 16 heads.
struct SparseAttentionKernels {
  // q fp32 [head_dim][16]; keys: pointers to `count` fp32 rows [head_dim]; sinks [16];
  // p [count][16] scratch; o fp32 [16][head_dim], divided but not rounded.
  void (*attend)(const float* q, const float* const* keys, int64_t count, int64_t head_dim,
                 float scale, const float* sinks, float* p, float* o) noexcept;
};

extern const SparseAttentionKernels kSparseAttentionReference;
extern const SparseAttentionKernels kSparseAttentionAvx2;
extern const SparseAttentionKernels kSparseAttentionAvx512;

}  // namespace tessera
