#include "ops/linear/formats/fused_avx512.h"

#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/mxfp4/mxfp4_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"

namespace tessera::kernels {
namespace {

// One group of 32 inputs of every tile; x and the blocks begin at that group.
template <size_t kTiles>
inline void multiply_group(const PanelBlock (&blocks)[kTiles], int byte,
                           const __m512 (&factor)[kTiles], const float* x, LinePrefetch& codes,
                           __m512 (&acc)[kTiles]) {
  const __m512 values = mxfp4_table();
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
        const __m512 weight = _mm512_mul_ps(_mm512_permutexvar_ps(code, values), factor[t]);
        acc[t] = _mm512_fmadd_ps(broadcast, weight, acc[t]);
      }
    }
  }
}

template <size_t kTiles>
bool multiply_tiles(const FusedArgs& args) noexcept {
  PanelBlock blocks[kTiles];
  __m512 acc[kTiles];
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    acc[t] = _mm512_setzero_ps();
  }
  LinePrefetch codes(args.prefetch, args.tiles[0].codes);
  LinePrefetch next_scales(args.prefetch_scales, args.tiles[0].scales);
  for (int64_t done = 0; done < args.inputs; done += kMxfp4InputsPerBlock) {
    const int64_t left = args.inputs - done;
    const int64_t inputs = left < kMxfp4InputsPerBlock ? left : kMxfp4InputsPerBlock;
    __m512i words[kTiles];
    __mmask64 is_large = 0;
    next_scales.step<kTiles>();
#pragma GCC unroll 4
    for (size_t t = 0; t < kTiles; ++t) {
      copy_tile(args.tiles[t].codes + done / 2, args.row_bytes, inputs / 2, blocks[t]);
      words[t] = load_mxfp4_scales(args.tiles[t].scales + done / kMxfp4Group, args.scale_row_bytes,
                                   kPanelRows, inputs / kMxfp4Group);
      is_large |=
          _mm512_cmpgt_epu8_mask(words[t], _mm512_set1_epi8(static_cast<char>(kMxfp4LargestScale)));
    }
    if (is_large != 0) [[unlikely]] {
      return false;
    }
    for (int64_t i = 0; i < inputs; i += kMxfp4Group) {
      __m512 factor[kTiles];
#pragma GCC unroll 4
      for (size_t t = 0; t < kTiles; ++t) {
        factor[t] = mxfp4_factor(_mm512_and_si512(words[t], _mm512_set1_epi32(0xff)));
        words[t] = _mm512_srli_epi32(words[t], 8);
      }
      multiply_group<kTiles>(blocks, static_cast<int>(i / 2), factor, args.x + done + i, codes,
                             acc);
    }
  }
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    _mm512_store_ps(args.acc + t * 16, acc[t]);
  }
  return true;
}

}  // namespace

bool fused_mxfp4_avx512(const FusedArgs& args) noexcept {
  static constexpr FusedFn kByTiles[kLargestFusedTiles] = {multiply_tiles<1>, multiply_tiles<2>,
                                                           multiply_tiles<3>, multiply_tiles<4>};
  return kByTiles[args.tile_count - 1](args);
}

}  // namespace tessera::kernels
