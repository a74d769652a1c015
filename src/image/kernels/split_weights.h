// How the SIMD levels multiply: a weight is high * 2^kSplit + low with two signed 16-bit parts, so
// that one multiply-add instruction takes two pixels at a time. Included by them alone.
#pragma once

#include <cstdint>

namespace tessera::image {

constexpr int kSplit = 12;  // weights have at most 24 bits and a sign
constexpr int32_t kLowMask = (1 << kSplit) - 1;

// Two weights as one multiply-add takes them, the first in the lower half.
static inline int32_t low_pair(int32_t a, int32_t b) {
  return (a & kLowMask) | ((b & kLowMask) << 16);
}
static inline int32_t high_pair(int32_t a, int32_t b) {
  return ((a >> kSplit) & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(b >> kSplit) << 16);
}

}  // namespace tessera::image
