// One source for every level; included by reference.cc, avx2.cc and avx512.cc.
#include "ops/quantize/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

// x rounded to the E4M3 grid, |x| <= 448: steps of 2^-9 below 2^-6, else three mantissa bits.
inline float round_e4m3(float x) {
  const uint32_t u = float_to_bits(x);
  const float fine = (x + 24576.0f) - 24576.0f;  // 1.5 * 2^14: one unit is 2^-9
  const float coarse = bits_to_float((u + 0x7ffffU + ((u >> 20) & 1U)) & 0xfff00000U);
  return bits_to_float(u & 0x7fffffffU) < 0.015625f ? fine : coarse;
}

void row_e4m3(const uint16_t* x, int64_t width, uint16_t* y) noexcept {
  for (int64_t first = 0; first < width; first += 32) {
    const int64_t count = width - first < 32 ? width - first : 32;
    float v[32];
    for (int64_t i = 0; i < count; ++i) {
      v[i] = widen_bf16(x[first + i]);
    }
    for (int64_t i = count; i < 32; ++i) {
      v[i] = 0.0f;
    }
    uint32_t largest = 0;  // magnitudes compare like their bits
    for (int64_t i = 0; i < 32; ++i) {
      const uint32_t magnitude = float_to_bits(v[i]) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
    const float amax = bits_to_float(largest) > 1e-4f ? bits_to_float(largest) : 1e-4f;
    const uint32_t t = float_to_bits(amax * bits_to_float(0x3b124925U));  // 1/448
    const uint32_t exponent = (t >> 23) + ((t & 0x7fffffU) != 0 ? 1U : 0U);
    const float scale = bits_to_float(exponent << 23);
    const float inverse = bits_to_float((254U - exponent) << 23);  // exact: a power of two
    uint16_t q[32];
    for (int64_t i = 0; i < 32; ++i) {
      float r = v[i] * inverse;
      r = r > 448.0f ? 448.0f : (r < -448.0f ? -448.0f : r);
      // An exact product; the sign of zero is kept.
      const uint32_t magnitude = float_to_bits(round_e4m3(r) * scale) & 0x7fffffffU;
      q[i] = static_cast<uint16_t>((magnitude | (float_to_bits(v[i]) & 0x80000000U)) >> 16);
    }
    for (int64_t i = 0; i < count; ++i) {
      y[first + i] = q[i];
    }
  }
}

}  // namespace
}  // namespace tessera
