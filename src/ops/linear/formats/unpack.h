// Unpacking: 16 rows of a matrix in memory, whatever its format, become one panel of exact values
// that the multiply kernels (panel.h) read front to back. Weights and activations alike.
//
//   f32 panel   [inputs][16] float                 read by every level
//   pair panel  [inputs/2][16 rows][2] bf16        read by vdpbf16ps; [.][.][0] is the even input
//
// An odd number of inputs is padded to even with -0: with a positive factor on the other side its
// product is -0, which changes no sum. Values are exact in bf16 (f32 weights: in float). A scaled
// value below the smallest normal number becomes a zero of its sign, one above the largest becomes
// an infinity. Every level writes the same bits. No function reads a byte outside the rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

constexpr int64_t kPanelRows = 16;

struct UnpackArgs {
  const std::byte* codes;   // column 0 of the panel's first row, any alignment
  int64_t row_bytes;        // between rows of codes
  const std::byte* scales;  // scale of column 0 of the panel's first row; nullptr without scales
  int64_t scale_row_bytes;  // between rows of scales; 0 when the 16 rows share them
  int64_t block;            // inputs per scale, a multiple of 32
  int64_t rows;             // rows that exist, 1..16; what the other lanes get is not specified
  int64_t first;            // first input, a multiple of 32
  int64_t count;            // inputs
  void* panel;              // 64-byte aligned
  // Memory that will be unpacked soon, in address order: kernels ask for as many bytes of it as
  // they read themselves. nullptr: nothing. Rows of one panel lie apart, so that the processor's
  // own prefetcher is of little help when weights come from DRAM.
  const std::byte* prefetch;
};
using UnpackFn = void (*)(const UnpackArgs&) noexcept;

// The same work from input `done` on: what a vector loop leaves to the reference. `done` is even.
UnpackArgs rest_of(const UnpackArgs& args, int64_t done, int64_t panel_bytes_per_input);

constexpr int64_t kF32PanelBytes = kPanelRows * 4;   // per input
constexpr int64_t kPairPanelBytes = kPanelRows * 2;  // per input

}  // namespace tessera::kernels
