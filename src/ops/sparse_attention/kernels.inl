// One source for every level; included by reference.cc, avx2.cc and avx512.cc, which set
// kHeadBlock: heads whose sums stay in registers at once (16 fp32 each).
#include "ops/sparse_attention/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

constexpr int64_t kKeyBlock = 4;  // keys whose dot products run side by side, to hide fma latency

// s [keys][16] for `keys` <= kKeyBlock rows.
inline void dot_block(const float* q, const float* const* keys, int64_t count, int64_t head_dim,
                      float scale, float* s) {
  float sum[kKeyBlock][kHeadLanes] = {};
  const float* row[kKeyBlock];
  for (int64_t k = 0; k < kKeyBlock; ++k) {
    row[k] = keys[k < count ? k : 0];
  }
  for (int64_t i = 0; i + 1 < head_dim; i += 2) {
    const float* odd = q + (i + 1) * kHeadLanes;
    const float* even = q + i * kHeadLanes;
    for (int64_t k = 0; k < kKeyBlock; ++k) {
      const float x1 = row[k][i + 1];
      const float x0 = row[k][i];
      for (int64_t l = 0; l < kHeadLanes; ++l) {
        sum[k][l] = __builtin_fmaf(odd[l], x1, sum[k][l]);
      }
      for (int64_t l = 0; l < kHeadLanes; ++l) {
        sum[k][l] = __builtin_fmaf(even[l], x0, sum[k][l]);
      }
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t l = 0; l < kHeadLanes; ++l) {
      s[k * kHeadLanes + l] = sum[k][l] * scale;
    }
  }
}

// o[head][16 elements from `first`] for the heads of one block.
inline void value_block(const float* const* keys, int64_t count, const float* p, int64_t head,
                        int64_t first, int64_t lanes, const float* den, int64_t head_dim,
                        float* o) {
  float sum[kHeadBlock][16] = {};
  if (lanes == 16) {
    for (int64_t j = 0; j < count; ++j) {
      const float* v = keys[j] + first;
      for (int64_t h = 0; h < kHeadBlock; ++h) {
        const float weight = p[j * kHeadLanes + head + h];
        for (int64_t l = 0; l < 16; ++l) {
          sum[h][l] = __builtin_fmaf(weight, v[l], sum[h][l]);
        }
      }
    }
  } else {
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t h = 0; h < kHeadBlock; ++h) {
        for (int64_t l = 0; l < lanes; ++l) {
          sum[h][l] = __builtin_fmaf(p[j * kHeadLanes + head + h], keys[j][first + l], sum[h][l]);
        }
      }
    }
  }
  for (int64_t h = 0; h < kHeadBlock; ++h) {
    for (int64_t l = 0; l < lanes; ++l) {
      o[(head + h) * head_dim + first + l] = sum[h][l] / den[head + h];
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
      const int64_t lanes = head_dim - first < 16 ? head_dim - first : 16;
      value_block(keys, count, p, head, first, lanes, den, head_dim, o);
    }
  }
}

}  // namespace
}  // namespace tessera
