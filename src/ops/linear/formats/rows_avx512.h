// Loads and transposes shared by the AVX-512 unpackers. Included by *avx512.cc only; everything is
// static, so that no code compiled for AVX-512 can be linked into other objects.
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
      _mm512_store_si512(block.row[r], _mm512_loadu_si512(from));
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

static inline __m128i load_16_bytes(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// 16 bytes of rows i, i+4, i+8, i+12 as the four 128-bit lanes.
static inline __m512i load_every_fourth(const PanelBlock& block, int i, int byte) {
  __m512i z = _mm512_castsi128_si512(load_16_bytes(block.row[i] + byte));
  z = _mm512_inserti32x4(z, load_16_bytes(block.row[i + 4] + byte), 1);
  z = _mm512_inserti32x4(z, load_16_bytes(block.row[i + 8] + byte), 2);
  return _mm512_inserti32x4(z, load_16_bytes(block.row[i + 12] + byte), 3);
}

// out[j] = dword j (of the four at `byte`) of all 16 rows, in row order.
static inline void load_transposed_dwords(const PanelBlock& block, int byte, __m512i out[4]) {
  const __m512i z0 = load_every_fourth(block, 0, byte);
  const __m512i z1 = load_every_fourth(block, 1, byte);
  const __m512i z2 = load_every_fourth(block, 2, byte);
  const __m512i z3 = load_every_fourth(block, 3, byte);
  const __m512i low01 = _mm512_unpacklo_epi32(z0, z1);
  const __m512i low23 = _mm512_unpacklo_epi32(z2, z3);
  const __m512i high01 = _mm512_unpackhi_epi32(z0, z1);
  const __m512i high23 = _mm512_unpackhi_epi32(z2, z3);
  out[0] = _mm512_unpacklo_epi64(low01, low23);
  out[1] = _mm512_unpackhi_epi64(low01, low23);
  out[2] = _mm512_unpacklo_epi64(high01, high23);
  out[3] = _mm512_unpackhi_epi64(high01, high23);
}

// One pair of inputs (exact in bf16, as floats) to either kind of panel. `pair` counts from the
// start of the panel.
static inline void store_pair(void* panel, int64_t pair, __m512 even, __m512 odd, bool as_pairs) {
  if (as_pairs) {
    const __m512i both =
        _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
    _mm512_store_si512(static_cast<std::byte*>(panel) + pair * 64, both);
  } else {
    float* f = static_cast<float*>(panel) + pair * 32;
    _mm512_store_ps(f, even);
    _mm512_store_ps(f + 16, odd);
  }
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
