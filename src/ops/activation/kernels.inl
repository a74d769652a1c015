// One source for every level; included by reference.cc, avx2.cc and avx512.cc.
#include "ops/activation/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

void silu_mul_bf16(const uint16_t* x, int64_t width, uint16_t* y) noexcept {
  for (int64_t i = 0; i < width; ++i) {
    const float silu = widen_bf16(narrow_bf16(silu_f32(widen_bf16(x[i]))));
    y[i] = narrow_bf16(silu * widen_bf16(x[width + i]));
  }
}

void silu_mul_f32(const float* x, int64_t width, float* y) noexcept {
  for (int64_t i = 0; i < width; ++i) {
    y[i] = silu_f32(x[i]) * x[width + i];
  }
}

void swiglu(const uint16_t* gate, const uint16_t* up, float weight, int64_t width, float limit,
            uint16_t* y) noexcept {
  const float high = limit > 0 ? limit : bits_to_float(0x7f800000U);
  for (int64_t i = 0; i < width; ++i) {
    float g = widen_bf16(gate[i]);
    float u = widen_bf16(up[i]);
    g = g > high ? high : g;
    u = u > high ? high : (u < -high ? -high : u);
    y[i] = narrow_bf16(weight * (silu_f32(g) * u));
  }
}

void add_bf16(uint16_t* x, const uint16_t* y, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    x[i] = narrow_bf16(widen_bf16(x[i]) + widen_bf16(y[i]));
  }
}

}  // namespace
}  // namespace tessera
