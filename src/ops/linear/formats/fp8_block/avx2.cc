#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/rows_avx2.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 64;
constexpr int64_t kStep = 16;  // inputs in 16 bytes; never crosses a scale
// An E4M3 code moved into an f16 keeps its fields, f16's exponent bias is 8 larger, and the f16
// conversion honours subnormals whatever the thread's modes: value = f16 * 2^8.
constexpr int kBias = 8;
constexpr uint8_t kLargestScale = 254 - kBias;

// out[p]: the 16-bit pair of codes (2p, 2p+1) of rows 0..15. Returns false when a code is NaN.
inline bool load_code_pairs(const PanelBlock& block, int byte, __m256i out[8]) {
  __m256i y[8], u[8];
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 8; ++i) {
    y[i] = load_two_rows(block.row[i] + byte, block.row[i + 8] + byte);
    largest = _mm256_max_epu8(largest, _mm256_and_si256(y[i], _mm256_set1_epi8(0x7f)));
  }
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm256_unpacklo_epi16(y[2 * i], y[2 * i + 1]);      // pairs 0..3 of rows 2i, 2i+1
    u[i + 4] = _mm256_unpackhi_epi16(y[2 * i], y[2 * i + 1]);  // pairs 4..7
  }
  for (int h = 0; h < 8; h += 4) {
    const __m256i a = _mm256_unpacklo_epi32(u[h], u[h + 1]);  // pairs h, h+1 of rows 0..3
    const __m256i b = _mm256_unpacklo_epi32(u[h + 2], u[h + 3]);
    const __m256i c = _mm256_unpackhi_epi32(u[h], u[h + 1]);  // pairs h+2, h+3
    const __m256i d = _mm256_unpackhi_epi32(u[h + 2], u[h + 3]);
    out[h] = _mm256_unpacklo_epi64(a, b);
    out[h + 1] = _mm256_unpackhi_epi64(a, b);
    out[h + 2] = _mm256_unpacklo_epi64(c, d);
    out[h + 3] = _mm256_unpackhi_epi64(c, d);
  }
  const __m256i nan = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(0x7f));
  return _mm256_movemask_epi8(nan) == 0;
}

// Codes in the high bytes of 16-bit elements to f16 of 2^-8 times the value.
inline __m256i codes_to_f16(__m256i high_bytes) {
  return _mm256_and_si256(_mm256_srai_epi16(high_bytes, 1),
                          _mm256_set1_epi16(static_cast<short>(0xbf80)));
}

inline __m256 load_f16(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
}

// 16 inputs from `byte` on. False, with nothing written, when a code is NaN.
inline bool unpack_16(const PanelBlock& block, int byte, __m256 scale, float* panel) {
  __m256i codes[8];
  if (!load_code_pairs(block, byte, codes)) {
    return false;
  }
  alignas(32) uint16_t halves[16][16];  // [input][16 rows]
  for (int p = 0; p < 8; ++p) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(halves[2 * p]),
                       codes_to_f16(_mm256_slli_epi16(codes[p], 8)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(halves[2 * p + 1]), codes_to_f16(codes[p]));
  }
  __asm__ volatile("" : "+m"(halves));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    float* to = panel + i * kPanelRows;
    _mm256_store_ps(to, _mm256_mul_ps(load_f16(halves[i]), scale));
    _mm256_store_ps(to + 8, _mm256_mul_ps(load_f16(halves[i] + 8), scale));
  }
  return true;
}

}  // namespace

void unpack_fp8_block_f32_avx2(const UnpackArgs& args) noexcept {
  float* panel = static_cast<float*>(args.panel);
  unpack_blocks<kInputsPerBlock, kStep, kF32PanelBytes>(
      args, unpack_fp8_block_f32_reference,
      [&args, panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          const int64_t input = done + i;
          const uint8_t scale =
              static_cast<uint8_t>(args.scales[(args.first + input) / args.block]);
          const __m256 factor = _mm256_castsi256_ps(_mm256_set1_epi32((scale + kBias) << 23));
          if (scale > kLargestScale ||
              !unpack_16(block, static_cast<int>(i), factor, panel + input * kPanelRows)) {
            UnpackArgs part = rest_of(args, input, kF32PanelBytes);
            part.count = kStep;
            unpack_fp8_block_f32_reference(part);
          }
        }
      });
}

}  // namespace tessera::kernels
