#pragma once

#include <cstdint>

namespace tessera {

struct IndexerKernels {
  // Scores of 16 keys for one query. q bf16 [heads, head_dim]; keys fp32 [head_dim][16],
  // transposed; weights bf16 [heads]; out [16]. is_rounded: the three bf16 roundings.
  void (*score16)(const uint16_t* q, const uint16_t* weights, int64_t heads, int64_t head_dim,
                  const float* keys, bool is_rounded, float* out) noexcept;
};

extern const IndexerKernels kIndexerReference;
extern const IndexerKernels kIndexerAvx2;
extern const IndexerKernels kIndexerAvx512;

}  // namespace tessera
