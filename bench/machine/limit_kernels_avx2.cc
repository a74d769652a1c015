#include <immintrin.h>

#include "machine/limit_kernels.h"

namespace tessera::bench {
namespace {

// Fewer chains than registers, more than latency times issue width (8).
constexpr int kChains = 12;

template <typename Step>
inline __m256 chains(int64_t steps, const Step& step) {
  __m256 acc[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) {
    acc[i] = _mm256_setzero_ps();
  }
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      acc[i] = step(acc[i]);
      __asm__ volatile("" : "+v"(acc[i]));  // keeps the chain as it is
    }
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm256_add_ps(acc[0], acc[i]);
  }
  return acc[0];
}

inline float first_lane(__m256 x) { return _mm_cvtss_f32(_mm256_castps256_ps128(x)); }

}  // namespace

float fma_chains_avx2(int64_t steps) noexcept {
  const __m256 factor = _mm256_set1_ps(0.999f);
  const __m256 one = _mm256_set1_ps(1.0f);
  return first_lane(chains(steps, [=](__m256 a) { return _mm256_fmadd_ps(factor, one, a); }));
}

uint64_t read_bytes_avx2(const std::byte* data, int64_t bytes) noexcept {
  constexpr int64_t kStep = 256 / 8;
  __m256i lanes[4];
  for (int i = 0; i < 4; ++i) {
    lanes[i] = _mm256_setzero_si256();
  }
  for (int64_t at = 0; at < bytes; at += 4 * kStep) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      lanes[i] = _mm256_or_si256(
          lanes[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + i * kStep)));
    }
  }
  lanes[0] =
      _mm256_or_si256(_mm256_or_si256(lanes[0], lanes[1]), _mm256_or_si256(lanes[2], lanes[3]));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(lanes[0])));
}

}  // namespace tessera::bench
