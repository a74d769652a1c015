// exp and its relatives for kernels of every level: the same operations in the same order, so that
// one source compiled for reference, AVX2 and AVX-512 gives equal bits. Everything here is static
// inline (no weak symbols in ISA objects) and branch-free where it is used in vector loops.
#pragma once

#include <cstdint>

namespace tessera {

// Lanes of every fixed-split reduction: sum_lanes_* add element i to lane i mod 16 and fold the
// lanes in a fixed tree. The order is part of the contract of rms_norm and the like
// (docs/numerics.md).
constexpr int64_t kLanes = 16;

static inline float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
static inline uint32_t float_to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }

static inline float widen_bf16(uint16_t bits) {
  return bits_to_float(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest even. Finite inputs; NaN keeps a NaN pattern unless its payload is all ones.
static inline uint16_t narrow_bf16(float x) {
  const uint32_t u = float_to_bits(x);
  return static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

// e^x, largest relative error 1e-7 (measured in vector_math_test.cc): x = n ln 2 + r,
// |r| <= ln 2 / 2, polynomial of degree 6 in r. Results below 2^-126 are 0, above the range +inf.
static inline float exp_f32(float x) {
  const float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < -87.33654f ? -87.33654f : (x > 88.72283f ? 88.72283f : x);
  const float shifted = __builtin_fmaf(clamped, 1.44269504f, kMagic);
  const float n = shifted - kMagic;
  float r = __builtin_fmaf(n, -0.693145752f, clamped);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = 1.38430073e-3f;
  p = __builtin_fmaf(p, r, 8.37434083e-3f);
  p = __builtin_fmaf(p, r, 4.16695364e-2f);
  p = __builtin_fmaf(p, r, 1.66664824e-1f);
  p = __builtin_fmaf(p, r, 4.99999851e-1f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  // 2^n in two factors, since n = 128 has no float.
  const int32_t exponent = static_cast<int32_t>(float_to_bits(shifted) - float_to_bits(kMagic));
  const int32_t half = exponent >> 1;
  const float a = bits_to_float(static_cast<uint32_t>(half + 127) << 23);
  const float b = bits_to_float(static_cast<uint32_t>(exponent - half + 127) << 23);
  const float y = (p * a) * b;
  const float above = x > 88.72283f ? bits_to_float(0x7f800000U) : y;
  return x < -87.33654f ? 0.0f : above;
}

static inline float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
static inline float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }

}  // namespace tessera
