// Small floating-point formats, as bits. Scalar and exact: the definition the kernels are tested
// against. Formats: deepseek_v41 specification section 12.1; OCP Microscaling 1.0.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

// bfloat16 as its bits.
struct bf16 {
  uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
inline bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<uint16_t>((u >> 16) | 0x40U)};
  }
  return {static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

// x rounded to bfloat16, as float.
inline float round_bf16(float x) { return to_float(to_bf16(x)); }

// IEEE binary16 bits to float, exact.
inline float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fU;
  uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1fU) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// E4M3 (fn): 1-4-3, bias 7, no infinity, 0x7f and 0xff are NaN, largest 448.
inline float e4m3_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
  const uint32_t exponent = (code >> 3) & 0xfU;
  const uint32_t mantissa = code & 7U;
  if ((code & 0x7fU) == 0x7fU) {
    return std::bit_cast<float>(sign | 0x7fc00000U);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 120U) << 23) | (mantissa << 20));
}

// Clamped to +-448, rounded to nearest, ties to even. NaN gives NaN.
inline uint8_t float_to_e4m3(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80U);
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<uint8_t>(sign | 0x7fU);
  }
  if (magnitude >= 0x43e00000U) {  // 448
    return static_cast<uint8_t>(sign | 0x7eU);
  }
  if (magnitude < 0x3c800000U) {  // below 2^-6: steps of 2^-9; adding 2^14 leaves just those bits
    const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0xfU));
  }
  const uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120U << 3)));
}

// 2^(code-127); 0 is 2^-127 (a subnormal float), 255 is NaN.
inline float e8m0_to_float(uint8_t code) {
  if (code == 255) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  return std::bit_cast<float>(code == 0 ? 0x00400000U : static_cast<uint32_t>(code) << 23);
}

// E2M1: 0 .5 1 1.5 2 3 4 6, bit 3 is the sign. Code 8 is -0.
inline float e2m1_to_float(uint8_t code) {
  constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Clamped to +-6, rounded to nearest, ties to the even code.
inline uint8_t float_to_e2m1(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint8_t sign = static_cast<uint8_t>((u >> 28) & 8U);
  const float m = std::bit_cast<float>(u & 0x7fffffffU);
  // Borders between codes; a tie belongs to the even neighbour.
  const uint32_t code = static_cast<uint32_t>(m > 0.25f) + static_cast<uint32_t>(m >= 0.75f) +
                        static_cast<uint32_t>(m > 1.25f) + static_cast<uint32_t>(m >= 1.75f) +
                        static_cast<uint32_t>(m > 2.5f) + static_cast<uint32_t>(m >= 3.5f) +
                        static_cast<uint32_t>(m > 5.0f);
  return static_cast<uint8_t>(sign | code);
}

}  // namespace tessera
