#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kInputsPerBlock = 64;
constexpr int64_t kStep = 32;  // inputs in 32 bytes; never crosses a scale
// An E4M3 code moved into an f16 keeps its fields, f16's exponent bias is 8 larger, and the f16
// conversion honours subnormals whatever the thread's modes: value = f16 * 2^8.
constexpr int kBias = 8;
constexpr uint8_t kLargestScale = 254 - kBias;

// out[p]: the 16-bit pair of codes (2p, 2p+1) of rows 0..15 in the low half, of the pair
// (16+2p, 17+2p) in the high half. Returns false when a code is NaN.
inline bool load_code_pairs(const PanelBlock& block, int byte, __m512i out[8]) {
  __m512i z[8], u[8];
  __m512i largest = _mm512_setzero_si512();
  for (int i = 0; i < 8; ++i) {
    const std::byte* upper = block.row[i] + byte;
    const std::byte* lower = block.row[i + 8] + byte;
    __m512i v = _mm512_castsi128_si512(load_16_bytes(upper));
    v = _mm512_inserti32x4(v, load_16_bytes(lower), 1);
    v = _mm512_inserti32x4(v, load_16_bytes(upper + 16), 2);
    z[i] = _mm512_inserti32x4(v, load_16_bytes(lower + 16), 3);
    largest = _mm512_max_epu8(largest, _mm512_and_si512(z[i], _mm512_set1_epi8(0x7f)));
  }
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm512_unpacklo_epi16(z[2 * i], z[2 * i + 1]);      // pairs 0..3 of rows 2i, 2i+1
    u[i + 4] = _mm512_unpackhi_epi16(z[2 * i], z[2 * i + 1]);  // pairs 4..7
  }
  for (int h = 0; h < 8; h += 4) {
    const __m512i a = _mm512_unpacklo_epi32(u[h], u[h + 1]);  // pairs h, h+1 of rows 0..3
    const __m512i b = _mm512_unpacklo_epi32(u[h + 2], u[h + 3]);
    const __m512i c = _mm512_unpackhi_epi32(u[h], u[h + 1]);  // pairs h+2, h+3
    const __m512i d = _mm512_unpackhi_epi32(u[h + 2], u[h + 3]);
    out[h] = _mm512_unpacklo_epi64(a, b);
    out[h + 1] = _mm512_unpackhi_epi64(a, b);
    out[h + 2] = _mm512_unpacklo_epi64(c, d);
    out[h + 3] = _mm512_unpackhi_epi64(c, d);
  }
  return _mm512_cmpeq_epi8_mask(largest, _mm512_set1_epi8(0x7f)) == 0;
}

// Codes in the high bytes of 16-bit elements to f16 of 2^-8 times the value.
inline __m512i codes_to_f16(__m512i high_bytes) {
  return _mm512_and_si512(_mm512_srai_epi16(high_bytes, 1),
                          _mm512_set1_epi16(static_cast<short>(0xbf80)));
}

inline __m512 load_f16(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}

// 32 inputs from `byte` on to the panel from pair `pair` on. False, with nothing written, when a
// code is NaN.
template <bool kAsPairs>
inline bool unpack_32(const PanelBlock& block, int byte, __m512 scale, void* panel, int64_t pair) {
  __m512i codes[8];
  if (!load_code_pairs(block, byte, codes)) {
    return false;
  }
  // [pair mod 8][even, odd][pair / 8][16 rows]. Through memory: the conversion of a loaded operand
  // needs no shuffle, that of a register half does.
  alignas(64) uint16_t halves[8][2][2][16];
  for (int p = 0; p < 8; ++p) {
    _mm512_store_si512(halves[p][0], codes_to_f16(_mm512_slli_epi16(codes[p], 8)));
    _mm512_store_si512(halves[p][1], codes_to_f16(codes[p]));
  }
  __asm__ volatile("" : "+m"(halves));
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) {
      store_pair(panel, pair + h * 8 + p, _mm512_mul_ps(load_f16(halves[p][0][h]), scale),
                 _mm512_mul_ps(load_f16(halves[p][1][h]), scale), kAsPairs);
    }
  }
  return true;
}

template <bool kAsPairs>
inline void unpack(const UnpackArgs& args) {
  constexpr int64_t kBytes = kAsPairs ? kPairPanelBytes : kF32PanelBytes;
  constexpr UnpackFn kReference =
      kAsPairs ? unpack_fp8_block_pairs_reference : unpack_fp8_block_f32_reference;
  unpack_blocks<kInputsPerBlock, kStep, kBytes>(
      args, kReference,
      [&args, panel = args.panel](const PanelBlock& block, int64_t done, int64_t inputs) {
        for (int64_t i = 0; i < inputs; i += kStep) {
          const int64_t input = done + i;
          const uint8_t scale =
              static_cast<uint8_t>(args.scales[(args.first + input) / args.block]);
          const __m512 factor = _mm512_castsi512_ps(_mm512_set1_epi32((scale + kBias) << 23));
          if (scale > kLargestScale ||
              !unpack_32<kAsPairs>(block, static_cast<int>(i), factor, panel, input / 2)) {
            UnpackArgs part = rest_of(args, input, kBytes);
            part.count = kStep;
            kReference(part);
          }
        }
      });
}

}  // namespace

void unpack_fp8_block_f32_avx512(const UnpackArgs& args) noexcept { unpack<false>(args); }

void unpack_fp8_block_pairs_avx512(const UnpackArgs& args) noexcept { unpack<true>(args); }

}  // namespace tessera::kernels
