// One source for every level; included by reference.cc, avx2.cc and avx512.cc, which define
//   Vec              16 floats, with load, store, splat and fma(a, b, c) = a * b + c
//   kKeyBlock        keys whose dot products run side by side
//   kHeadBlock       heads whose sums stay in registers at once
#include "ops/sparse_attention/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

// s [keys][16] for `count` <= kKeyBlock rows. The dot products of a block run side by side, to hide
// the latency of fma.
inline void dot_block(const float* q, const float* const* keys, int64_t count, int64_t head_dim,
                      float scale, float* s) {
  Vec sum[kKeyBlock];
  const float* row[kKeyBlock];
  for (int64_t k = 0; k < kKeyBlock; ++k) {
    sum[k] = splat(0.0f);
    row[k] = keys[k < count ? k : 0];
  }
  for (int64_t i = 0; i + 1 < head_dim; i += 2) {
    const Vec odd = load(q + (i + 1) * kHeadLanes);
    const Vec even = load(q + i * kHeadLanes);
#pragma GCC unroll 8
    for (int64_t k = 0; k < kKeyBlock; ++k) {
      sum[k] = fma(even, splat(row[k][i]), fma(odd, splat(row[k][i + 1]), sum[k]));
    }
  }
  float lanes[kHeadLanes];
  for (int64_t k = 0; k < count; ++k) {
    store(lanes, sum[k]);
    for (int64_t l = 0; l < kHeadLanes; ++l) {
      s[k * kHeadLanes + l] = lanes[l] * scale;
    }
  }
}

// o[head][16 elements from `first`] for the heads of one block; head_dim is a multiple of 16.
inline void value_block(const float* const* keys, int64_t count, const float* p, int64_t head,
                        int64_t first, const float* den, int64_t head_dim, float* o) {
  Vec sum[kHeadBlock];
  for (int64_t h = 0; h < kHeadBlock; ++h) {
    sum[h] = splat(0.0f);
  }
  for (int64_t j = 0; j < count; ++j) {
    const Vec v = load(keys[j] + first);
    const float* weights = p + j * kHeadLanes + head;
#pragma GCC unroll 8
    for (int64_t h = 0; h < kHeadBlock; ++h) {
      sum[h] = fma(splat(weights[h]), v, sum[h]);
    }
  }
  float lanes[16];
  for (int64_t h = 0; h < kHeadBlock; ++h) {
    store(lanes, sum[h]);
    for (int64_t l = 0; l < 16; ++l) {
      o[(head + h) * head_dim + first + l] = lanes[l] / den[head + h];
    }
  }
}

void attend(const float* q, const float* const* keys, int64_t count, int64_t head_dim, float scale,
            const float* sinks, float* p, float* o) noexcept {
  for (int64_t j = 0; j < count; j += kKeyBlock) {
    const int64_t block = count - j < kKeyBlock ? count - j : kKeyBlock;
    dot_block(q, keys + j, block, head_dim, scale, p + j * kHeadLanes);
  }
  float largest[kHeadLanes];
  float den[kHeadLanes] = {};
  for (int64_t l = 0; l < kHeadLanes; ++l) {
    largest[l] = -1e30f;
  }
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t l = 0; l < kHeadLanes; ++l) {
      const float s = p[j * kHeadLanes + l];
      largest[l] = s > largest[l] ? s : largest[l];
    }
  }
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t l = 0; l < kHeadLanes; ++l) {
      const float e = exp_f32(p[j * kHeadLanes + l] - largest[l]);
      den[l] += e;
      p[j * kHeadLanes + l] = widen_bf16(narrow_bf16(e));
    }
  }
  for (int64_t l = 0; l < kHeadLanes; ++l) {
    den[l] += exp_f32(sinks[l] - largest[l]);
  }
  for (int64_t head = 0; head < kHeadLanes; head += kHeadBlock) {
    for (int64_t first = 0; first < head_dim; first += 16) {
      value_block(keys, count, p, head, first, den, head_dim, o);
    }
  }
}

}  // namespace
}  // namespace tessera
