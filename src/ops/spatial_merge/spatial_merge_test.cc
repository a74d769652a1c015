#include "ops/spatial_merge/spatial_merge.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

// A 4 x 5 grid of 7 channels: blocks 2 x 2, one padded row pair and one padded column.
TEST(SpatialMerge, ChannelOutermostRowMajorBlocksZeroRightAndBottom) {
  test::OpContext op;
  constexpr int64_t kChannels = 7;
  const MergeGrid grid{4, 5, 3};
  std::vector<float> x(4 * 5 * kChannels);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
  }
  std::vector<float> y(2 * 2 * kChannels * 9, -1.0f);
  unfold(op.ctx, grid, x.data(), kChannels, y.data());
  for (int64_t by = 0; by < 2; ++by) {
    for (int64_t bx = 0; bx < 2; ++bx) {
      for (int64_t c = 0; c < kChannels; ++c) {
        for (int64_t ky = 0; ky < 3; ++ky) {
          for (int64_t kx = 0; kx < 3; ++kx) {
            const int64_t row = 3 * by + ky, column = 3 * bx + kx;
            const float expected = row < 4 && column < 5
                                       ? x[static_cast<size_t>((row * 5 + column) * kChannels + c)]
                                       : 0.0f;
            EXPECT_EQ(y[static_cast<size_t>((by * 2 + bx) * kChannels * 9 + c * 9 + ky * 3 + kx)],
                      expected);
          }
        }
      }
    }
  }
  // Specification 4: channel 5, ky 1, kx 2 is feature 50.
  EXPECT_EQ(y[50], x[(1 * 5 + 2) * kChannels + 5]);
}

}  // namespace
}  // namespace tessera
