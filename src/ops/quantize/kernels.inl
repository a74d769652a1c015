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

// x rounded to the E2M1 grid, 0 <= x <= 6: steps of 1/2 below 2, of 1 below 4, of 2 above. A tie
// goes to the even multiple of the step, which is the even code.
inline float round_e2m1(float x) {
  const float magic = 0x1.8p22f * (x < 2.0f ? 1.0f : (x < 4.0f ? 2.0f : 4.0f));
  return (x + magic) - magic;
}

void row_e2m1_calibrated(const uint16_t* x, int64_t width, float input_scale,
                         uint16_t* y) noexcept {
  constexpr int64_t kGroup = 16;
  constexpr uint32_t kInfinity = 0x7f800000U;
  for (int64_t first = 0; first < width; first += kGroup) {
    float v[kGroup];
    uint32_t largest = 0;  // magnitudes compare like their bits; NaN is left out
    for (int64_t i = 0; i < kGroup; ++i) {
      v[i] = widen_bf16(x[first + i]);
      const uint32_t magnitude = float_to_bits(v[i]) & 0x7fffffffU;
      largest = magnitude > largest && magnitude <= kInfinity ? magnitude : largest;
    }
    const float wanted = bits_to_float(largest) / (6.0f * input_scale);
    const float scale = round_e4m3(wanted > 448.0f ? 448.0f : wanted);
    const float step = scale * input_scale;
    uint16_t q[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) {
      const uint32_t bits = float_to_bits(v[i]);
      const float ratio = bits_to_float(bits & 0x7fffffffU) / step;
      const float value = round_e2m1(ratio > 6.0f ? 6.0f : ratio) * scale;
      const uint32_t rounded = step == 0.0f ? 0U : float_to_bits(value) | (bits & 0x80000000U);
      const uint32_t nan = bits | 0x400000U;
      q[i] = static_cast<uint16_t>(((bits & 0x7fffffffU) > kInfinity ? nan : rounded) >> 16);
    }
    for (int64_t i = 0; i < kGroup; ++i) {
      y[first + i] = q[i];
    }
  }
}

}  // namespace
}  // namespace tessera
