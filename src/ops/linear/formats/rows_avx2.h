// Loads and transposes shared by the AVX2 unpackers. Included by *avx2.cc only; everything is
// static, so that no code compiled for AVX2 can be linked into other objects.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

// 64 bytes of every row, copied before they are taken apart: rows whose distance is a multiple of
// 4 KiB fall into one set of L1 and would evict each other between two looks at a line.
constexpr int64_t kBlockBytes = 64;
struct PanelBlock {
  alignas(64) std::byte row[16][kBlockBytes];
};

// Rows from args.rows on keep what they hold.
static inline void copy_block(const std::byte* from, const UnpackArgs& args, PanelBlock& block) {
  if (args.rows == kPanelRows) [[likely]] {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {
      __builtin_prefetch(from + kBlockBytes);  // from L2 while this block is unpacked
      const __m256i* half = reinterpret_cast<const __m256i*>(from);
      __m256i* to = reinterpret_cast<__m256i*>(block.row[r]);
      _mm256_store_si256(to, _mm256_loadu_si256(half));
      _mm256_store_si256(to + 1, _mm256_loadu_si256(half + 1));
      from += args.row_bytes;
    }
  } else {
    for (int64_t r = 0; r < args.rows; ++r) {
      __builtin_memcpy(block.row[r], from + r * args.row_bytes, kBlockBytes);
    }
  }
}

// The last bytes of the rows, fewer than 64.
static inline void copy_part(const std::byte* from, int64_t bytes, const UnpackArgs& args,
                             PanelBlock& block) {
  for (int64_t r = 0; r < args.rows; ++r) {
    __builtin_memcpy(block.row[r], from + r * args.row_bytes, static_cast<size_t>(bytes));
  }
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
static inline void load_transposed_dwords(const PanelBlock& block, int first, int byte,
                                          __m256i out[4]) {
  const std::byte(*row)[kBlockBytes] = block.row + first;
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

// Runs over all inputs of args: unpack_block(block, done, inputs) for every 64 bytes of the rows,
// `inputs` a multiple of kStep; what is left below kStep goes to the reference. kInputsPerBlock are
// in 64 bytes, kPanelBytes is the panel's size per input.
template <int64_t kInputsPerBlock, int64_t kStep, int64_t kPanelBytes, typename UnpackBlock>
static inline void unpack_blocks(const UnpackArgs& args, UnpackFn reference,
                                 const UnpackBlock& unpack_block) {
  const std::byte* codes = args.codes + args.first * kBlockBytes / kInputsPerBlock;
  PanelBlock block;
  if (args.rows < kPanelRows) {
    __builtin_memset(&block, 0, sizeof(block));
  }
  int64_t done = 0;
  for (; done + kInputsPerBlock <= args.count; done += kInputsPerBlock) {
    const int64_t byte = done * kBlockBytes / kInputsPerBlock;
    prefetch_ahead<16 * kBlockBytes>(args, byte * 16);
    copy_block(codes + byte, args, block);
    unpack_block(block, done, kInputsPerBlock);
  }
  const int64_t left = (args.count - done) / kStep * kStep;
  if (left > 0) {
    copy_part(codes + done * kBlockBytes / kInputsPerBlock, left * kBlockBytes / kInputsPerBlock,
              args, block);
    unpack_block(block, done, left);
    done += left;
  }
  if (done < args.count) {
    reference(rest_of(args, done, kPanelBytes));
  }
}

}  // namespace tessera::kernels
