#include <immintrin.h>

#include "image/kernels/kernels.h"
#include "image/kernels/split_weights.h"

namespace tessera::image {
namespace {

constexpr int64_t kRows = 4;    // of `across`: 8 sums, their weights and pixels fit 16 registers
constexpr int64_t kBlock = 32;  // bytes of a row in `down`

struct Sums {
  __m256i low;
  __m256i high;
};

inline __m256i load(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

inline __m256i total(const Sums& sums) {
  return _mm256_add_epi32(sums.low, _mm256_slli_epi32(sums.high, kSplit));
}

inline void multiply_add(__m256i pixels, __m256i low, __m256i high, Sums& sums) {
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, low));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, high));
}

// Four weights: pairs (0,1) in the lower and (2,3) in the upper half of each register, one pair per
// channel.
inline void spread(__m128i weights, __m256i& low, __m256i& high) {
  const __m128i parts = _mm_packs_epi32(_mm_and_si128(weights, _mm_set1_epi32(kLowMask)),
                                        _mm_srai_epi32(weights, kSplit));
  const __m256i both = _mm256_broadcastsi128_si256(parts);
  low =
      _mm256_shuffle_epi8(both, _mm256_setr_epi32(0x03020100, 0x03020100, 0x03020100, 0x03020100,
                                                  0x07060504, 0x07060504, 0x07060504, 0x07060504));
  high =
      _mm256_shuffle_epi8(both, _mm256_setr_epi32(0x0b0a0908, 0x0b0a0908, 0x0b0a0908, 0x0b0a0908,
                                                  0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c, 0x0f0e0d0c));
}

// Four pixels as 16-bit pairs: r0 r1 g0 g1 b0 b1 - - and the same of pixels 2 and 3.
inline __m256i pixel_pairs(const uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_shuffle_epi8(
      _mm256_broadcastsi128_si256(bytes),
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
}

inline void add_pixels(const uint8_t* const* from, int64_t at, __m128i weights,
                       Sums (&sums)[kRows]) {
  __m256i low;
  __m256i high;
  spread(weights, low, high);
#pragma GCC unroll 4
  for (int64_t r = 0; r < kRows; ++r) {
    multiply_add(pixel_pairs(from[r] + at), low, high, sums[r]);
  }
}

// Clamped pixels of four rows, r g b - each.
inline __m128i finish(const Sums (&sums)[kRows], __m256i half, __m128i bits) {
  const __m256i s0 = total(sums[0]);
  const __m256i s1 = total(sums[1]);
  const __m256i s2 = total(sums[2]);
  const __m256i s3 = total(sums[3]);
  const __m256i s01 = _mm256_add_epi32(_mm256_permute2x128_si256(s0, s1, 0x20),
                                       _mm256_permute2x128_si256(s0, s1, 0x31));
  const __m256i s23 = _mm256_add_epi32(_mm256_permute2x128_si256(s2, s3, 0x20),
                                       _mm256_permute2x128_si256(s2, s3, 0x31));
  const __m256i words = _mm256_packs_epi32(_mm256_sra_epi32(_mm256_add_epi32(s01, half), bits),
                                           _mm256_sra_epi32(_mm256_add_epi32(s23, half), bits));
  // Words of rows 0, 2 | 1, 3.
  const __m128i pixels =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  return _mm_shuffle_epi32(pixels, _MM_SHUFFLE(3, 1, 2, 0));
}

// Pixel x of four rows. All but the last pixel write a fourth byte, which the next one replaces.
inline void store(__m128i pixels, uint8_t* const* to, int64_t x, bool is_last) {
  alignas(16) uint8_t bytes[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), pixels);
  for (int64_t r = 0; r < kRows; ++r) {
    __builtin_memcpy(to[r] + 3 * x, bytes + 4 * r, is_last ? 3 : 4);
  }
}

void across_rows(const AcrossArgs& args, const uint8_t* const* from, uint8_t* const* to) {
  const __m256i half = _mm256_set1_epi32(1 << (args.bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(args.bits);
  for (int64_t x = 0; x < args.outputs; ++x) {
    const int32_t* weight = args.weight + args.offset[x];
    const int64_t count = args.offset[x + 1] - args.offset[x];
    const int64_t at = 3 * int64_t{args.first[x]};
    Sums sums[kRows] = {};
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      add_pixels(from, at + 3 * j, _mm_loadu_si128(reinterpret_cast<const __m128i*>(weight + j)),
                 sums);
    }
    if (j < count) {
      const __m128i left = _mm_set1_epi32(static_cast<int32_t>(count - j));
      const __m128i mask = _mm_cmpgt_epi32(left, _mm_setr_epi32(0, 1, 2, 3));
      add_pixels(from, at + 3 * j, _mm_maskload_epi32(weight + j, mask), sums);
    }
    store(finish(sums, half, bits), to, x, x + 1 == args.outputs);
  }
}

void across(const AcrossArgs& args) noexcept {
  for (int64_t row = 0; row < kRowGroup; row += kRows) {
    across_rows(args, args.from + row, args.to + row);
  }
}

// Bytes a[i], b[i] side by side as 16-bit pairs, in the order that packing undoes.
inline void add_rows(__m256i a, __m256i b, __m256i low, __m256i high, Sums (&sums)[4]) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i first = _mm256_unpacklo_epi8(a, b);
  const __m256i second = _mm256_unpackhi_epi8(a, b);
  multiply_add(_mm256_unpacklo_epi8(first, zero), low, high, sums[0]);
  multiply_add(_mm256_unpackhi_epi8(first, zero), low, high, sums[1]);
  multiply_add(_mm256_unpacklo_epi8(second, zero), low, high, sums[2]);
  multiply_add(_mm256_unpackhi_epi8(second, zero), low, high, sums[3]);
}

inline void down_block(const DownArgs& args, int64_t at) {
  Sums sums[4] = {};
  const uint8_t* from = args.from + at;
  int64_t j = 0;
  for (; j + 2 <= args.count; j += 2, from += 2 * args.stride) {
    const int32_t a = args.weight[j];
    const int32_t b = args.weight[j + 1];
    add_rows(load(from), load(from + args.stride), _mm256_set1_epi32(low_pair(a, b)),
             _mm256_set1_epi32(high_pair(a, b)), sums);
  }
  if (j < args.count) {
    const int32_t a = args.weight[j];
    add_rows(load(from), _mm256_setzero_si256(), _mm256_set1_epi32(low_pair(a, 0)),
             _mm256_set1_epi32(high_pair(a, 0)), sums);
  }
  const __m256i half = _mm256_set1_epi32(1 << (args.bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(args.bits);
  __m256i levels[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    levels[i] = _mm256_sra_epi32(_mm256_add_epi32(total(sums[i]), half), bits);
  }
  const __m256i pixels = _mm256_packus_epi16(_mm256_packs_epi32(levels[0], levels[1]),
                                             _mm256_packs_epi32(levels[2], levels[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(args.to + at), pixels);
}

void down(const DownArgs& args) noexcept {
  int64_t at = 0;
  for (; at + kBlock <= args.bytes; at += kBlock) {
    down_block(args, at);
  }
  if (at < args.bytes && args.bytes >= kBlock) {
    down_block(args, args.bytes - kBlock);
    return;
  }
  for (; at < args.bytes; ++at) {
    int32_t sum = 1 << (args.bits - 1);
    for (int64_t j = 0; j < args.count; ++j) {
      sum += args.weight[j] * args.from[j * args.stride + at];
    }
    sum >>= args.bits;
    args.to[at] = static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
}

}  // namespace

const ResampleKernels kResampleAvx2 = {across, down};

}  // namespace tessera::image
