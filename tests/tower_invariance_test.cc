// What must not change a bit of a vision tower's rows, on a small one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/support/full_tower.h"

namespace tessera {
namespace {

using deepseek_v41::Config;
using deepseek_v41::Network;
using deepseek_v41::SyntheticWeights;
using deepseek_v41::VisionBuffers;
using deepseek_v41::VisionJob;

// A tower of two blocks whose rows fill more than one tile, with padded cell rows and columns.
class SmallTower : public testing::Test {
 protected:
  static constexpr int64_t kRows = 25;
  static constexpr int64_t kColumns = 22;

  SmallTower() : config_(test::released_config()) {
    config_.hidden = 96;
    config_.vision.layers = 2;
    config_.vision.hidden = 128;
    config_.vision.heads = 2;
    config_.vision.ffn_dim = 176;
    test::OpContext context;
    weights_.emplace(context.ctx, deepseek_v41::tower_only(config_));
    network_ = deepseek_v41::synthetic_network(config_, *weights_);
    patches_ = test::random_bf16(kRows * kColumns * config_.vision.patch_width(), 7);
  }

  template <typename T>
  Tensor encode(int threads, IsaLevel isa, int64_t tiles_at_a_time) const {
    test::OpContext context(threads, isa);
    VisionBuffers<T> buffers(config_, kRows * kColumns);
    VisionJob<T> job(network_, patches_.data(), kRows, kColumns, "image0", buffers);
    int64_t done = 0;
    while (!job.advance(context.ctx, tiles_at_a_time)) {
      done += tiles_at_a_time;
      EXPECT_EQ(job.tiles_done(), done);
    }
    EXPECT_EQ(job.tiles_done(), job.tiles_total());
    EXPECT_EQ(job.out_rows(), 9 * 8);
    return job.take_out();
  }

  template <typename T>
  void expect_equal_bits() const {
    constexpr int64_t kAllTiles = int64_t{1} << 40;
    const Tensor want = encode<T>(1, IsaLevel::reference, kAllTiles);
    struct Case {
      IsaLevel isa;
      int threads;
      int64_t tiles;
    };
    std::vector<Case> cases;
    for (const IsaLevel isa : supported_isas()) {
      cases.push_back({isa, 2, 1});
    }
    for (const int threads : {1, 2, 3}) {
      cases.push_back({detected_isa(), threads, 4});
      cases.push_back({detected_isa(), threads, kAllTiles});
    }
    for (const Case& c : cases) {
      const Tensor got = encode<T>(c.threads, c.isa, c.tiles);
      ASSERT_EQ(got.shape(), want.shape());
      EXPECT_EQ(std::memcmp(got.view().data, want.view().data, static_cast<size_t>(want.bytes())),
                0)
          << isa_name(c.isa) << ", " << c.threads << " threads, " << c.tiles << " tiles at a time";
    }
    double sum = 0;
    for (int64_t i = 0; i < want.shape().elements(); ++i) {
      const double value = static_cast<double>(as_float(want.as<T>()[i]));
      sum += value * value;
    }
    const double rms = std::sqrt(sum / static_cast<double>(want.shape().elements()));
    EXPECT_GT(rms, 0.01);
    EXPECT_LT(rms, 100);
  }

  static float as_float(bf16 value) { return to_float(value); }
  static float as_float(float value) { return value; }

  Config config_;
  std::optional<SyntheticWeights> weights_;
  Network network_;
  std::vector<bf16> patches_;
};

TEST_F(SmallTower, Bf16BitsDoNotDependOnTilesThreadsOrLevel) { expect_equal_bits<bf16>(); }

TEST_F(SmallTower, F32BitsDoNotDependOnTilesThreadsOrLevel) { expect_equal_bits<float>(); }

}  // namespace
}  // namespace tessera
