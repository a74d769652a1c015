// Loads and transposes shared by the AVX2 unpackers. Included by *avx2.cc only; everything is
// static, so that no code compiled for AVX2 can be linked into other objects.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

// Pointers to column `byte` of the 16 rows; rows that do not exist repeat the last one.
struct PanelRowPointers {
  const std::byte* row[16];
};

static inline PanelRowPointers row_pointers(const UnpackArgs& args, int64_t byte) {
  PanelRowPointers p;
  for (int64_t r = 0; r < 16; ++r) {
    p.row[r] = args.codes + (r < args.rows ? r : args.rows - 1) * args.row_bytes + byte;
  }
  __asm__ volatile("" : "+m"(p));  // in memory, not in vector registers to be taken apart again
  return p;
}

// Brings the next kBytes of args.prefetch into L2; `done` counts them.
template <int64_t kBytes>
static inline void prefetch_ahead(const UnpackArgs& args, int64_t done) {
  if (args.prefetch != nullptr) {
#pragma GCC unroll 16
    for (int64_t line = 0; line < kBytes; line += 64) {
      __builtin_prefetch(args.prefetch + done + line, 0, 2);
    }
  }
}

// 16 bytes each of two rows as the two 128-bit lanes.
static inline __m256i load_two_rows(const std::byte* low, const std::byte* high) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

// out[j] = dword j (of the four at `byte`) of rows first..first+7, in row order.
static inline void load_transposed_dwords(const PanelRowPointers& p, int first, int64_t byte,
                                          __m256i out[4]) {
  const std::byte* const* row = p.row + first;
  const __m256i y0 = load_two_rows(row[0] + byte, row[4] + byte);
  const __m256i y1 = load_two_rows(row[1] + byte, row[5] + byte);
  const __m256i y2 = load_two_rows(row[2] + byte, row[6] + byte);
  const __m256i y3 = load_two_rows(row[3] + byte, row[7] + byte);
  const __m256i low01 = _mm256_unpacklo_epi32(y0, y1);
  const __m256i low23 = _mm256_unpacklo_epi32(y2, y3);
  const __m256i high01 = _mm256_unpackhi_epi32(y0, y1);
  const __m256i high23 = _mm256_unpackhi_epi32(y2, y3);
  out[0] = _mm256_unpacklo_epi64(low01, low23);
  out[1] = _mm256_unpackhi_epi64(low01, low23);
  out[2] = _mm256_unpacklo_epi64(high01, high23);
  out[3] = _mm256_unpackhi_epi64(high01, high23);
}

}  // namespace tessera::kernels
