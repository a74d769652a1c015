#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

TEST(Sampler, GreedyTakesTheFirstLargest) {
  Sampler sampler;
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(sampler.sample(logits, {.temperature = 0}, 0, 0), 1);
}

TEST(Sampler, DrawsDependOnSeedSequenceAndPositionAlone) {
  EXPECT_EQ(counter_uniform(1, 2, 3), counter_uniform(1, 2, 3));
  EXPECT_NE(counter_uniform(1, 2, 3), counter_uniform(1, 2, 4));
  EXPECT_NE(counter_uniform(1, 2, 3), counter_uniform(1, 3, 3));
  EXPECT_NE(counter_uniform(1, 2, 3), counter_uniform(2, 2, 3));
}

// Chi-square against the exact probabilities: 4 cells, 3 degrees of freedom; 16.27 is the 0.1 %
// point.
TEST(Sampler, FrequenciesFollowTheSoftmax) {
  Sampler sampler;
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f,
                                     -std::numeric_limits<float>::infinity()};
  constexpr int kDraws = 40000;
  const double temperature = 0.7;
  std::vector<int> counts(5, 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(sampler.sample(logits, {.temperature = temperature, .seed = 5}, 0,
                                                static_cast<uint64_t>(i)))];
  }
  double total = 0;
  for (size_t i = 0; i < 4; ++i) {
    total += std::exp(static_cast<double>(logits[i]) / temperature);
  }
  double chi = 0;
  for (size_t i = 0; i < 4; ++i) {
    const double expected = kDraws * std::exp(static_cast<double>(logits[i]) / temperature) / total;
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi, 16.27);
  EXPECT_EQ(counts[4], 0);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheMass) {
  Sampler sampler;
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  std::vector<int> counts(3, 0);
  for (uint64_t i = 0; i < 2000; ++i) {
    ++counts[static_cast<size_t>(
        sampler.sample(logits, {.temperature = 1, .top_p = 0.7, .seed = 1}, 0, i))];
  }
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[0], 600);
  EXPECT_GT(counts[1], 1100);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.sample(logits, {.temperature = 1, .top_p = 0.0, .seed = 1}, 0, i), 1);
  }
}

TEST(Sampler, LogProbability) {
  const std::vector<float> logits = {std::log(0.25f), std::log(0.75f)};
  EXPECT_NEAR(log_probability(logits, 0), std::log(0.25), 1e-7);
}

}  // namespace
}  // namespace tessera
