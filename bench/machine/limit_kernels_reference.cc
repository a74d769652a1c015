#include <emmintrin.h>

#include "machine/limit_kernels.h"

namespace tessera::bench {

float fma_chains_reference(int64_t steps) noexcept {
  constexpr int kValues = 64;  // 16 chains of 4 lanes
  float acc[kValues] = {};
  float factor = 0.999f;
  __asm__ volatile("" : "+x"(factor));
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kValues; ++i) {
      acc[i] = acc[i] * factor + 1.0f;
    }
  }
  float sum = 0;
  for (const float a : acc) {
    sum += a;
  }
  return sum;
}

uint64_t read_bytes_reference(const std::byte* data, int64_t bytes) noexcept {
  __m128i lanes[4] = {};
  for (int64_t at = 0; at < bytes; at += 64) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      lanes[i] = _mm_or_si128(
          lanes[i], _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + at + i * 16)));
    }
  }
  lanes[0] = _mm_or_si128(_mm_or_si128(lanes[0], lanes[1]), _mm_or_si128(lanes[2], lanes[3]));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(lanes[0]));
}

}  // namespace tessera::bench
