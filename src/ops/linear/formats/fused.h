// Decoding one row: codes become values in registers and are multiplied at once, without a panel.
// The order of the sums is linear.h's, one chain per output; several tiles of 16 outputs go side
// by side, so that the latency of one chain is filled by the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

constexpr int64_t kLargestFusedTiles = 4;

struct FusedArgs {
  // 16 whole rows each: column 0 of the first row, and its scale.
  struct Tile {
    const std::byte* codes;
    const std::byte* scales;
  };
  Tile tiles[kLargestFusedTiles];
  int64_t tile_count;       // 1..kLargestFusedTiles
  int64_t row_bytes;        // between rows of codes
  int64_t scale_row_bytes;  // between rows of scales; unused when the 16 rows share them
  int64_t block;            // inputs per scale
  const float* x;           // [inputs]
  int64_t inputs;           // a multiple of 32
  float* acc;               // [16 tile_count], 64-byte aligned: the sums, started at +0
  // Codes and scales that will be read soon, as in UnpackArgs; nullptr: nothing.
  const std::byte* prefetch;
  const std::byte* prefetch_scales;
};
// False where a scale or a code is so rare (infinite values, NaN) that the panels must do the work;
// acc is then not written.
using FusedFn = bool (*)(const FusedArgs&) noexcept;

}  // namespace tessera::kernels
