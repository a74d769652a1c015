// Inner kernels of vision_attention: the softmax between the two products. Lanes are queries.
#pragma once

#include <cstdint>

namespace tessera::kernels {

struct SoftmaxArgs {
  float* s;  // [keys, lanes], 64-byte aligned
  int64_t keys;
  int64_t lanes;  // a multiple of 16
  float scale;
  float* largest;  // [lanes], running maximum
  float* sum;      // [lanes], running sum of p
  float* p;        // [keys, lanes]
};
using SoftmaxFn = void (*)(const SoftmaxArgs&) noexcept;

// s *= scale; largest = max(largest, s), keys ascending.
void scale_and_max_avx2(const SoftmaxArgs& args) noexcept;
void scale_and_max_avx512(const SoftmaxArgs& args) noexcept;
// p = exp_f32(s - largest); sum += p, keys ascending.
void exp_and_sum_avx2(const SoftmaxArgs& args) noexcept;
void exp_and_sum_avx512(const SoftmaxArgs& args) noexcept;

}  // namespace tessera::kernels
