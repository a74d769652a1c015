// The two passes of a separable resampler over 8-bit RGB (ResampleTaps): plain integer sums, equal
// on every level.
#pragma once

#include <cstdint>

namespace tessera::image {

// Rows of one call of `across`: enough to use what is made of each weight several times.
constexpr int64_t kRowGroup = 8;
// Bytes that `across` may read behind the end of a row; they do not matter.
constexpr int64_t kRowSlack = 16;

// kRowGroup rows; fewer are given by repeating the last one.
struct AcrossArgs {
  const uint8_t* const* from;  // kRowGroup rows, RGB, kRowSlack readable bytes behind each
  uint8_t* const* to;          // kRowGroup rows of 3 * outputs bytes
  const int32_t* first;        // [outputs], pixels
  const int64_t* offset;       // [outputs + 1], into weight
  const int32_t* weight;
  int64_t outputs;
  int bits;
};

// One row of the result from `count` >= 1 rows that lie `stride` bytes apart.
struct DownArgs {
  const uint8_t* from;
  int64_t stride;
  const int32_t* weight;  // [count]
  int64_t count;
  uint8_t* to;
  int64_t bytes;  // of a row
  int bits;
};

struct ResampleKernels {
  void (*across)(const AcrossArgs& args) noexcept;
  void (*down)(const DownArgs& args) noexcept;
};

extern const ResampleKernels kResampleReference;
extern const ResampleKernels kResampleAvx2;
extern const ResampleKernels kResampleAvx512;

}  // namespace tessera::image
