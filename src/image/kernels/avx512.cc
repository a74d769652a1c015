#include <immintrin.h>

#include "image/kernels/kernels.h"
#include "image/kernels/split_weights.h"

namespace tessera::image {
namespace {

constexpr int64_t kPairs = kRowGroup / 2;  // of rows in `across`, two per register
constexpr int64_t kBlock = 64;             // bytes of a row in `down`

struct Sums {
  __m512i low;
  __m512i high;
};

inline __m512i total(const Sums& sums) {
  return _mm512_add_epi32(sums.low, _mm512_slli_epi32(sums.high, kSplit));
}

inline void multiply_add(__m512i pixels, __m512i low, __m512i high, Sums& sums) {
  sums.low = _mm512_add_epi32(sums.low, _mm512_madd_epi16(pixels, low));
  sums.high = _mm512_add_epi32(sums.high, _mm512_madd_epi16(pixels, high));
}

// Four weights: pairs (0,1) and (2,3) in alternate quarters of each register, one pair per channel.
inline void spread(__m128i weights, __m512i& low, __m512i& high) {
  const __m128i parts = _mm_packs_epi32(_mm_and_si128(weights, _mm_set1_epi32(kLowMask)),
                                        _mm_srai_epi32(weights, kSplit));
  const __m512i both = _mm512_broadcast_i32x4(parts);
  low =
      _mm512_shuffle_epi8(both, _mm512_setr_epi32(0x03020100, 0x03020100, 0x03020100, 0x03020100,
                                                  0x07060504, 0x07060504, 0x07060504, 0x07060504,
                                                  0x03020100, 0x03020100, 0x03020100, 0x03020100,
                                                  0x07060504, 0x07060504, 0x07060504, 0x07060504));
  high =
      _mm512_shuffle_epi8(both, _mm512_setr_epi32(0x0b0a0908, 0x0b0a0908, 0x0b0a0908, 0x0b0a0908,
                                                  0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c,
                                                  0x0b0a0908, 0x0b0a0908, 0x0b0a0908, 0x0b0a0908,
                                                  0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c));
}

// Four pixels of two rows as 16-bit pairs: quarters r0 r1 g0 g1 b0 b1 - -, the same of pixels 2 and
// 3, then the second row.
inline __m512i pixel_pairs(const uint8_t* a, const uint8_t* b) {
  const __m128i bytes_a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
  const __m128i bytes_b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  const __m512i bytes =
      _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(bytes_a), 0xff00, bytes_b);
  const __m128i even = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m128i odd = _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m512i order = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(even), 0xf0f0, odd);
  return _mm512_shuffle_epi8(bytes, order);
}

inline void add_pixels(const uint8_t* const* from, int64_t at, __m128i weights,
                       Sums (&sums)[kPairs]) {
  __m512i low;
  __m512i high;
  spread(weights, low, high);
#pragma GCC unroll 4
  for (int64_t p = 0; p < kPairs; ++p) {
    multiply_add(pixel_pairs(from[2 * p] + at, from[2 * p + 1] + at), low, high, sums[p]);
  }
}

inline __m128i to_pixels(__m512i sums, __m512i half, __m128i bits) {
  const __m512i levels = _mm512_sra_epi32(_mm512_add_epi32(sums, half), bits);
  return _mm512_cvtusepi32_epi8(_mm512_max_epi32(levels, _mm512_setzero_si512()));
}

// Clamped pixels of four rows, r g b - each.
inline __m128i finish(const Sums& first, const Sums& second, __m512i half, __m128i bits) {
  const __m512i s01 = total(first);
  const __m512i s23 = total(second);
  return to_pixels(_mm512_add_epi32(_mm512_shuffle_i32x4(s01, s23, _MM_SHUFFLE(2, 0, 2, 0)),
                                    _mm512_shuffle_i32x4(s01, s23, _MM_SHUFFLE(3, 1, 3, 1))),
                   half, bits);
}

// Pixel x of eight rows. All but the last pixel write a fourth byte, which the next one replaces.
inline void store(__m128i lower, __m128i upper, uint8_t* const* to, int64_t x, bool is_last) {
  alignas(16) uint8_t bytes[32];
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), lower);
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes + 16), upper);
  for (int64_t r = 0; r < kRowGroup; ++r) {
    __builtin_memcpy(to[r] + 3 * x, bytes + 4 * r, is_last ? 3 : 4);
  }
}

void across(const AcrossArgs& args) noexcept {
  const __m512i half = _mm512_set1_epi32(1 << (args.bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(args.bits);
  for (int64_t x = 0; x < args.outputs; ++x) {
    const int32_t* weight = args.weight + args.offset[x];
    const int64_t count = args.offset[x + 1] - args.offset[x];
    const int64_t at = 3 * int64_t{args.first[x]};
    Sums sums[kPairs] = {};
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      add_pixels(args.from, at + 3 * j,
                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(weight + j)), sums);
    }
    if (j < count) {
      const __mmask8 mask = static_cast<__mmask8>((1U << (count - j)) - 1U);
      add_pixels(args.from, at + 3 * j, _mm_maskz_loadu_epi32(mask, weight + j), sums);
    }
    store(finish(sums[0], sums[1], half, bits), finish(sums[2], sums[3], half, bits), args.to, x,
          x + 1 == args.outputs);
  }
}

// Bytes a[i], b[i] side by side as 16-bit pairs, in the order that packing undoes.
inline void add_rows(__m512i a, __m512i b, __m512i low, __m512i high, Sums (&sums)[4]) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i first = _mm512_unpacklo_epi8(a, b);
  const __m512i second = _mm512_unpackhi_epi8(a, b);
  multiply_add(_mm512_unpacklo_epi8(first, zero), low, high, sums[0]);
  multiply_add(_mm512_unpackhi_epi8(first, zero), low, high, sums[1]);
  multiply_add(_mm512_unpacklo_epi8(second, zero), low, high, sums[2]);
  multiply_add(_mm512_unpackhi_epi8(second, zero), low, high, sums[3]);
}

void down(const DownArgs& args) noexcept {
  const __m512i half = _mm512_set1_epi32(1 << (args.bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(args.bits);
  for (int64_t at = 0; at < args.bytes; at += kBlock) {
    const int64_t left = args.bytes - at;
    const __mmask64 mask = left >= kBlock ? ~__mmask64{0} : (__mmask64{1} << left) - 1U;
    const uint8_t* from = args.from + at;
    Sums sums[4] = {};
    int64_t j = 0;
    for (; j + 2 <= args.count; j += 2, from += 2 * args.stride) {
      const int32_t a = args.weight[j];
      const int32_t b = args.weight[j + 1];
      add_rows(_mm512_maskz_loadu_epi8(mask, from),
               _mm512_maskz_loadu_epi8(mask, from + args.stride), _mm512_set1_epi32(low_pair(a, b)),
               _mm512_set1_epi32(high_pair(a, b)), sums);
    }
    if (j < args.count) {
      const int32_t a = args.weight[j];
      add_rows(_mm512_maskz_loadu_epi8(mask, from), _mm512_setzero_si512(),
               _mm512_set1_epi32(low_pair(a, 0)), _mm512_set1_epi32(high_pair(a, 0)), sums);
    }
    __m512i levels[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      levels[i] = _mm512_sra_epi32(_mm512_add_epi32(total(sums[i]), half), bits);
    }
    const __m512i pixels = _mm512_packus_epi16(_mm512_packs_epi32(levels[0], levels[1]),
                                               _mm512_packs_epi32(levels[2], levels[3]));
    _mm512_mask_storeu_epi8(args.to + at, mask, pixels);
  }
}

}  // namespace

const ResampleKernels kResampleAvx512 = {across, down};

}  // namespace tessera::image
