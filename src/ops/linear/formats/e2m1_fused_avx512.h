// The fused kernel of formats with E2M1 codes. Included by *avx512.cc only, see rows_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/e2m1_avx512.h"
#include "ops/linear/formats/fused_avx512.h"

namespace tessera::kernels {

// 32 inputs of every tile; x and the blocks begin at them. The first 16 have factors[.][0].
template <size_t kTiles>
static inline void multiply_e2m1_step(const PanelBlock (&blocks)[kTiles], int byte,
                                      const __m512 (&factors)[kTiles][2], const float* x,
                                      LinePrefetch& codes, __m512 (&acc)[kTiles]) {
  const __m512 values = e2m1_table();
  __m512i eights[kTiles][4];  // eight codes of every row, the first in the lowest nibble
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    load_transposed_dwords(blocks[t], byte, eights[t]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    codes.step<kTiles>();
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) {
      const int input = n ^ 1;  // odd first
      const __m512 broadcast = _mm512_set1_ps(x[j * 8 + input]);
#pragma GCC unroll 4
      for (size_t t = 0; t < kTiles; ++t) {
        // permutexvar looks at the lowest four bits only.
        const __m512i code = _mm512_srli_epi32(eights[t][j], static_cast<unsigned>(4 * input));
        const __m512 weight = _mm512_mul_ps(_mm512_permutexvar_ps(code, values), factors[t][j / 2]);
        acc[t] = _mm512_fmadd_ps(broadcast, weight, acc[t]);
      }
    }
  }
}

// Scales of the 16 rows of a tile, one block of inputs at a time:
//   kGroup                         inputs per scale
//   load(from, row_bytes, count)   the next `count` scales of every row; false: one is too rare
//   next(factors)                  of the next 32 inputs
template <typename Scales, size_t kTiles>
static bool multiply_e2m1_tiles(const FusedArgs& args) noexcept {
  constexpr size_t kScaleLines = kPanelRows * kE2m1InputsPerBlock / Scales::kGroup / 64;
  PanelBlock blocks[kTiles];
  __m512 acc[kTiles];
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    acc[t] = _mm512_setzero_ps();
  }
  LinePrefetch codes(args.prefetch, args.tiles[0].codes);
  LinePrefetch next_scales(args.prefetch_scales, args.tiles[0].scales);
  for (int64_t done = 0; done < args.inputs; done += kE2m1InputsPerBlock) {
    const int64_t left = args.inputs - done;
    const int64_t inputs = left < kE2m1InputsPerBlock ? left : kE2m1InputsPerBlock;
    Scales scales[kTiles];
    bool is_usual = true;
    next_scales.step<kScaleLines * kTiles>();
#pragma GCC unroll 4
    for (size_t t = 0; t < kTiles; ++t) {
      copy_tile(args.tiles[t].codes + done / 2, args.row_bytes, inputs / 2, blocks[t]);
      is_usual &= scales[t].load(args.tiles[t].scales + done / Scales::kGroup, args.scale_row_bytes,
                                 inputs / Scales::kGroup);
    }
    if (!is_usual) [[unlikely]] {
      return false;
    }
    for (int64_t i = 0; i < inputs; i += kE2m1Step) {
      __m512 factors[kTiles][2];
#pragma GCC unroll 4
      for (size_t t = 0; t < kTiles; ++t) {
        scales[t].next(factors[t]);
      }
      multiply_e2m1_step<kTiles>(blocks, static_cast<int>(i / 2), factors, args.x + done + i, codes,
                                 acc);
    }
  }
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    _mm512_store_ps(args.acc + t * 16, acc[t]);
  }
  return true;
}

template <typename Scales>
static inline bool multiply_e2m1_fused(const FusedArgs& args) noexcept {
  static constexpr FusedFn kByTiles[kLargestFusedTiles] = {
      multiply_e2m1_tiles<Scales, 1>, multiply_e2m1_tiles<Scales, 2>,
      multiply_e2m1_tiles<Scales, 3>, multiply_e2m1_tiles<Scales, 4>};
  return kByTiles[args.tile_count - 1](args);
}

}  // namespace tessera::kernels
