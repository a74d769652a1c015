// value * 2^(scale-127) under the rule of unpack.h. Scalar, exact, independent of the rounding and
// flushing modes of the thread.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::kernels {

inline float scaled_value(float value, uint8_t scale) {
  if (scale == 255 || value != value) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  const uint64_t exponent = 1023U - 127U + scale;
  const double exact = static_cast<double>(value) * std::bit_cast<double>(exponent << 52);
  const uint32_t sign = std::bit_cast<uint32_t>(value) & 0x80000000U;
  const double magnitude = exact < 0 ? -exact : exact;
  if (magnitude < 0x1p-126) {
    return std::bit_cast<float>(sign);
  }
  if (magnitude >= 0x1p128) {
    return std::bit_cast<float>(sign | 0x7f800000U);
  }
  return static_cast<float>(exact);
}

}  // namespace tessera::kernels
