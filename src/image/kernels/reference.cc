#include <algorithm>

#include "image/kernels/kernels.h"

namespace tessera::image {
namespace {

uint8_t to_pixel(int32_t sum, int bits) {
  return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255));
}

void across(const AcrossArgs& args) noexcept {
  const int32_t half = int32_t{1} << (args.bits - 1);
  for (int64_t row = 0; row < kRowGroup; ++row) {
    uint8_t* to = args.to[row];
    for (int64_t x = 0; x < args.outputs; ++x) {
      const int32_t* weight = args.weight + args.offset[x];
      const int64_t count = args.offset[x + 1] - args.offset[x];
      const uint8_t* from = args.from[row] + 3 * int64_t{args.first[x]};
      int32_t r = half;
      int32_t g = half;
      int32_t b = half;
      for (int64_t j = 0; j < count; ++j) {
        r += weight[j] * from[3 * j];
        g += weight[j] * from[3 * j + 1];
        b += weight[j] * from[3 * j + 2];
      }
      to[3 * x] = to_pixel(r, args.bits);
      to[3 * x + 1] = to_pixel(g, args.bits);
      to[3 * x + 2] = to_pixel(b, args.bits);
    }
  }
}

void down(const DownArgs& args) noexcept {
  // Columns are independent: blocks of 1 KiB of source bytes keep the sums (4 KiB) in the L1 cache.
  constexpr int64_t kBlock = 1024;
  int32_t sums[kBlock];
  for (int64_t begin = 0; begin < args.bytes; begin += kBlock) {
    const int64_t n = std::min(kBlock, args.bytes - begin);
    std::fill_n(sums, n, int32_t{1} << (args.bits - 1));
    for (int64_t j = 0; j < args.count; ++j) {
      const uint8_t* from = args.from + j * args.stride + begin;
      const int32_t weight = args.weight[j];
      for (int64_t i = 0; i < n; ++i) {
        sums[i] += weight * from[i];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      args.to[begin + i] = to_pixel(sums[i], args.bits);
    }
  }
}

}  // namespace

const ResampleKernels kResampleReference = {across, down};

}  // namespace tessera::image
