#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace tessera {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The distribution that sampler.h promises, written down once more without any selection.
std::vector<double> exact_probabilities(const std::vector<float>& logits,
                                        const SamplingOptions& o) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  for (const float x : logits) {
    weights.push_back(std::exp((static_cast<double>(x) - largest) / o.temperature));
  }
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const auto drop_from = [&](size_t rank) {
    for (; rank < order.size(); ++rank) {
      weights[order[rank]] = 0;
    }
  };
  size_t rank = 0;
  while (rank < order.size() && weights[order[rank]] >= o.min_p) {
    ++rank;
  }
  drop_from(rank);
  if (o.top_k > 0) {
    drop_from(std::min(order.size(), static_cast<size_t>(o.top_k)));
  }
  const double mass = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  for (rank = 0; rank < order.size() && (rank == 0 || kept < o.top_p * mass); ++rank) {
    kept += weights[order[rank]];
  }
  drop_from(rank);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) {
    w /= total;
  }
  return weights;
}

// The 1e-5 point of chi-square (Wilson and Hilferty 1931): some fifty distributions are compared.
double chi_square_limit(int64_t freedom) {
  const double n = static_cast<double>(freedom);
  const double root = 1 - 2 / (9 * n) + 4.265 * std::sqrt(2 / (9 * n));
  return n * root * root * root;
}

// Draws and compares frequencies with the exact probabilities. Cells with fewer than 20 expected
// draws are put together.
void expect_distribution(const std::vector<float>& logits, const SamplingOptions& options) {
  constexpr uint64_t kDraws = 10000;
  const std::vector<double> exact = exact_probabilities(logits, options);
  std::vector<double> counts(logits.size(), 0);
  Sampler sampler;
  for (uint64_t i = 0; i < kDraws; ++i) {
    counts[static_cast<size_t>(sampler.sample(logits, options, 3, i))] += 1;
  }
  double chi = 0, rest_expected = 0, rest_counted = 0;
  int64_t cells = 0;
  const auto add = [&](double expected, double counted) {
    chi += (counted - expected) * (counted - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = exact[i] * static_cast<double>(kDraws);
    if (exact[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was left out and is drawn";
    } else if (expected < 20) {
      rest_expected += expected;
      rest_counted += counts[i];
    } else {
      add(expected, counts[i]);
    }
  }
  if (rest_expected > 0) {
    add(rest_expected, rest_counted);
  }
  if (cells > 1) {
    EXPECT_LT(chi, chi_square_limit(cells - 1)) << cells << " cells";
  }
}

const std::vector<float> kFew = {0.0f, 1.0f, 2.0f, -1.0f, 1.0f, kNever, 0.5f};

// A vocabulary with a long tail; two equal logits at the top.
std::vector<float> many_logits() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(200);
  for (float& x : logits) {
    x = normal(random);
  }
  logits[70] = logits[150] = *std::max_element(logits.begin(), logits.end());
  return logits;
}

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

// 100 cells; neighbouring seeds, sequences and positions.
TEST(Sampler, UniformNumbersAreUniform) {
  std::vector<double> cells(100, 0);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t sequence = 0; sequence < 10; ++sequence) {
      for (uint64_t position = 0; position < 1000; ++position) {
        const double u = counter_uniform(seed, sequence, position);
        ASSERT_GE(u, 0);
        ASSERT_LT(u, 1);
        cells[static_cast<size_t>(u * 100)] += 1;
      }
    }
  }
  double chi = 0;
  for (const double count : cells) {
    chi += (count - 1000) * (count - 1000) / 1000;
  }
  EXPECT_LT(chi, chi_square_limit(99));
}

TEST(Sampler, TemperatureFollowsTheSoftmax) {
  for (const double temperature : {0.3, 0.7, 1.0, 2.5}) {
    SCOPED_TRACE(temperature);
    expect_distribution(kFew, {.temperature = temperature, .seed = 5});
    expect_distribution(many_logits(), {.temperature = temperature, .seed = 6});
  }
}

TEST(Sampler, TopK) {
  for (const int64_t k : {1, 2, 3, 6, 100}) {
    SCOPED_TRACE(k);
    expect_distribution(kFew, {.top_k = k, .seed = 7});
    expect_distribution(many_logits(), {.temperature = 1.5, .top_k = k, .seed = 8});
  }
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheMass) {
  for (const double p : {0.0, 0.3, 0.5, 0.9, 0.999, 1.0}) {
    SCOPED_TRACE(p);
    expect_distribution(kFew, {.top_p = p, .seed = 9});
    expect_distribution(many_logits(), {.temperature = 1.5, .top_p = p, .seed = 10});
  }
}

TEST(Sampler, MinP) {
  for (const double p : {0.0, 0.05, 0.2, 0.5, 1.0}) {
    SCOPED_TRACE(p);
    expect_distribution(kFew, {.min_p = p, .seed = 11});
    expect_distribution(many_logits(), {.temperature = 1.5, .min_p = p, .seed = 12});
  }
}

TEST(Sampler, RulesTogether) {
  expect_distribution(many_logits(),
                      {.temperature = 2, .top_k = 40, .top_p = 0.8, .min_p = 0.1, .seed = 13});
  expect_distribution(
      many_logits(), {.temperature = 0.5, .top_k = 500, .top_p = 0.95, .min_p = 0.001, .seed = 14});
}

TEST(AdjustLogits, Bias) {
  std::vector<float> logits = {1, 2, 3};
  adjust_logits(logits, {.logit_bias = {{0, 5.0}, {2, -1.5}, {7, 1.0}, {-1, 1.0}}}, {});
  EXPECT_EQ(logits, (std::vector<float>{6, 2, 1.5}));
}

// Repetition counts prompt and answer, presence and frequency the answer alone.
TEST(AdjustLogits, Penalties) {
  TokenCounts counts;
  counts.add_prompt(std::vector<int32_t>{0, 1});
  counts.add_answer(1);
  counts.add_answer(2);
  counts.add_answer(2);
  const std::vector<float> logits = {4, -2, 3, 5};
  const auto adjusted = [&](const SamplingOptions& options) {
    std::vector<float> out = logits;
    adjust_logits(out, options, counts);
    return out;
  };
  EXPECT_EQ(adjusted({}), logits);
  EXPECT_EQ(adjusted({.repetition_penalty = 2}), (std::vector<float>{2, -4, 1.5, 5}));
  EXPECT_EQ(adjusted({.presence_penalty = 0.5}), (std::vector<float>{4, -2.5, 2.5, 5}));
  EXPECT_EQ(adjusted({.frequency_penalty = 0.5}), (std::vector<float>{4, -2.5, 2, 5}));
  EXPECT_EQ(adjusted({.repetition_penalty = 2, .presence_penalty = 1, .frequency_penalty = -1}),
            (std::vector<float>{2, -4, 2.5, 5}));
}

// Draws from adjusted logits follow the softmax of what the rule says.
TEST(AdjustLogits, DrawsFollow) {
  TokenCounts counts;
  counts.add_prompt(std::vector<int32_t>{0});
  counts.add_answer(2);
  std::vector<float> logits = kFew;
  const SamplingOptions options = {.repetition_penalty = 1.3,
                                   .presence_penalty = 0.4,
                                   .frequency_penalty = 0.3,
                                   .logit_bias = {{3, 1.5}},
                                   .seed = 15};
  adjust_logits(logits, options, counts);
  EXPECT_FLOAT_EQ(logits[3], 0.5f);
  EXPECT_FLOAT_EQ(logits[2], 2 / 1.3f - 0.7f);
  expect_distribution(logits, options);
}

TEST(LogProbability, OfTheSoftmax) {
  const std::vector<float> logits = {0.0f, std::log(3.0f), kNever};
  EXPECT_NEAR(log_probability(logits, 0), std::log(0.25), 1e-7);
  EXPECT_NEAR(log_probability(logits, 1), std::log(0.75), 1e-7);
}

TEST(LogProbability, OfTheLikeliestInOrder) {
  const std::vector<float> logits = {1, 3, 2, 3};
  const std::vector<TokenLogprob> top = top_logprobs(logits, 3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 3);
  EXPECT_EQ(top[2].id, 2);
  for (const TokenLogprob& t : top) {
    EXPECT_DOUBLE_EQ(t.logprob, log_probability(logits, t.id));
  }
  EXPECT_TRUE(top_logprobs(logits, 0).empty());
  EXPECT_EQ(top_logprobs(logits, 20).size(), 4U);
}

}  // namespace
}  // namespace tessera
