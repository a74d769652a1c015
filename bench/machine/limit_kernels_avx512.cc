#include <immintrin.h>

#include "machine/limit_kernels.h"

namespace tessera::bench {
namespace {

// Fewer chains than registers, more than latency times issue width (8).
constexpr int kChains = 12;

template <typename Step>
inline __m512 chains(int64_t steps, const Step& step) {
  __m512 acc[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) {
    acc[i] = _mm512_setzero_ps();
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
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  }
  return acc[0];
}

inline float first_lane(__m512 x) { return _mm_cvtss_f32(_mm512_castps512_ps128(x)); }

}  // namespace

float fma_chains_avx512(int64_t steps) noexcept {
  const __m512 factor = _mm512_set1_ps(0.999f);
  const __m512 one = _mm512_set1_ps(1.0f);
  return first_lane(chains(steps, [=](__m512 a) { return _mm512_fmadd_ps(factor, one, a); }));
}

float dot_chains_avx512(int64_t steps) noexcept {
  const __m512bh pairs = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  return first_lane(chains(steps, [=](__m512 a) { return _mm512_dpbf16_ps(a, pairs, pairs); }));
}

uint64_t read_bytes_avx512(const std::byte* data, int64_t bytes) noexcept {
  constexpr int64_t kStep = 512 / 8;
  __m512i lanes[4];
  for (int i = 0; i < 4; ++i) {
    lanes[i] = _mm512_setzero_si512();
  }
  for (int64_t at = 0; at < bytes; at += 4 * kStep) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      lanes[i] = _mm512_or_si512(
          lanes[i], _mm512_loadu_si512(reinterpret_cast<const __m512i*>(data + at + i * kStep)));
    }
  }
  lanes[0] =
      _mm512_or_si512(_mm512_or_si512(lanes[0], lanes[1]), _mm512_or_si512(lanes[2], lanes[3]));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(lanes[0])));
}

}  // namespace tessera::bench
