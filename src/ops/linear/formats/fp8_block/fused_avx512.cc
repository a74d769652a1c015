#include "ops/linear/formats/fused_avx512.h"

#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/fp8_block/fp8_block_avx512.h"
#include "ops/linear/formats/fp8_block/fp8_block_format.h"

namespace tessera::kernels {
namespace {

// 32 inputs of every tile. False, with nothing added, when a code is NaN.
template <size_t kTiles>
inline bool multiply_32(const PanelBlock (&blocks)[kTiles], int byte,
                        const __m512 (&factor)[kTiles], const float* x, LinePrefetch& codes,
                        __m512 (&acc)[kTiles]) {
  alignas(64) Fp8Halves halves[kTiles];
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    __m512i pairs[8];
    if (!load_code_pairs(blocks[t], byte, pairs)) [[unlikely]] {
      return false;
    }
    store_halves(pairs, halves[t]);
    codes.step<4>();
  }
  __asm__ volatile("" : "+m"(halves));
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) {
      if (p % 4 == 0) {
        codes.step<kTiles>();
      }
#pragma GCC unroll 2
      for (int odd = 1; odd >= 0; --odd) {
        const __m512 broadcast = _mm512_set1_ps(x[h * 16 + p * 2 + odd]);
#pragma GCC unroll 4
        for (size_t t = 0; t < kTiles; ++t) {
          const __m512 weight = _mm512_mul_ps(load_f16(halves[t][p][odd][h]), factor[t]);
          acc[t] = _mm512_fmadd_ps(broadcast, weight, acc[t]);
        }
      }
    }
  }
  return true;
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
  for (int64_t done = 0; done < args.inputs; done += kFp8InputsPerBlock) {
    const int64_t left = args.inputs - done;
    const int64_t inputs = left < kFp8InputsPerBlock ? left : kFp8InputsPerBlock;
#pragma GCC unroll 4
    for (size_t t = 0; t < kTiles; ++t) {
      copy_tile(args.tiles[t].codes + done, args.row_bytes, inputs, blocks[t]);
    }
    for (int64_t i = 0; i < inputs; i += kFp8Step) {
      __m512 factor[kTiles];
      uint8_t largest = 0;
#pragma GCC unroll 4
      for (size_t t = 0; t < kTiles; ++t) {
        const uint8_t scale = static_cast<uint8_t>(args.tiles[t].scales[(done + i) / args.block]);
        largest = scale > largest ? scale : largest;
        factor[t] = fp8_factor(scale);
      }
      if (largest > kFp8LargestScale ||
          !multiply_32<kTiles>(blocks, static_cast<int>(i), factor, args.x + done + i, codes, acc))
          [[unlikely]] {
        return false;
      }
    }
  }
#pragma GCC unroll 4
  for (size_t t = 0; t < kTiles; ++t) {
    _mm512_store_ps(args.acc + t * 16, acc[t]);
  }
  return true;
}

}  // namespace

bool fused_fp8_block_avx512(const FusedArgs& args) noexcept {
  static constexpr FusedFn kByTiles[kLargestFusedTiles] = {multiply_tiles<1>, multiply_tiles<2>,
                                                           multiply_tiles<3>, multiply_tiles<4>};
  return kByTiles[args.tile_count - 1](args);
}

}  // namespace tessera::kernels
