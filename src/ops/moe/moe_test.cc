#include "ops/moe/moe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

// Worked example of specification 9.
TEST(Router, WorkedExample) {
  OpContext op;
  const RouterSpec spec{.experts = 6, .active = 3, .scale = 1.5f};
  std::vector<float> scores = {2, -1, .5f, 3, 0, 1};
  const std::vector<float> bias = {0, .9f, .4f, -.8f, .3f, 0};
  const std::byte* const rows[1] = {reinterpret_cast<const std::byte*>(bias.data())};
  router_scores(op.ctx, spec, scores.data(), 1);
  const float want_scores[6] = {1.4583991f, .5596979f, .9869534f,
                                1.7460204f, .8325546f, 1.1459763f};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(scores[i], want_scores[i], 1.2e-7f) << i;
  }
  std::vector<int32_t> picks(3);
  router_picks(op.ctx, spec, scores.data(), rows, 1, picks.data());
  EXPECT_EQ(picks, (std::vector<int32_t>{0, 1, 2}));
  std::vector<float> weights(3);
  router_weights(op.ctx, spec, scores.data(), picks.data(), 1, weights.data());
  EXPECT_NEAR(weights[0], .7279741f, 1e-6f);
  EXPECT_NEAR(weights[1], .2793786f, 1e-6f);
  EXPECT_NEAR(weights[2], .4926473f, 1e-6f);
}

TEST(Router, SoftplusOverTheWholeRange) {
  OpContext op;
  std::vector<float> z;
  for (float x = -100; x < 30; x += 0.013f) {
    z.push_back(x);
  }
  const RouterSpec spec{.experts = static_cast<int64_t>(z.size()), .active = 1};
  std::vector<float> scores = z;
  router_scores(op.ctx, spec, scores.data(), 1);
  for (size_t i = 0; i < z.size(); ++i) {
    const double x = z[i];
    const double exact = std::sqrt(x > 20 ? x : std::log1p(std::exp(x)));
    EXPECT_NEAR(scores[i], exact, exact * 2e-7) << x;
  }
}

TEST(Router, TiesGoToTheSmallerIdAndRowsMayUseDifferentBiases) {
  OpContext op;
  const RouterSpec spec{.experts = 4, .active = 2};
  const std::vector<float> scores = {1, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<float> text = {0, 0, 0, 0}, image = {-1, 0, 0, 5};
  const std::byte* const bias[2] = {reinterpret_cast<const std::byte*>(text.data()),
                                    reinterpret_cast<const std::byte*>(image.data())};
  std::vector<int32_t> picks(4);
  router_picks(op.ctx, spec, scores.data(), bias, 2, picks.data());
  EXPECT_EQ(picks, (std::vector<int32_t>{0, 1, 1, 3}));
}

// Random bf16 experts: the sum over picks in ascending id, the shared expert last, and rows that
// are independent of each other.
TEST(Moe, EqualsTheDefinitionAndRowsAreIndependent) {
  constexpr int64_t kRows = 9, kWidth = 64, kFfn = 32, kExperts = 5, kActive = 2;
  std::vector<std::vector<bf16>> storage;
  const auto matrix = [&](int64_t outputs, int64_t inputs, unsigned seed) {
    storage.push_back(test::random_bf16(outputs * inputs, seed, 0.2f));
    return Linear{
        {WeightBf16{reinterpret_cast<const std::byte*>(storage.back().data())}, outputs, inputs}};
  };
  storage.reserve(64);
  std::vector<ExpertWeights> experts;
  for (unsigned e = 0; e <= kExperts; ++e) {
    experts.push_back({matrix(kFfn, kWidth, 3 * e), matrix(kFfn, kWidth, 3 * e + 1),
                       matrix(kWidth, kFfn, 3 * e + 2)});
  }
  const ExpertWeights shared = experts.back();
  experts.pop_back();
  const std::vector<bf16> x = test::random_bf16(kRows * kWidth, 100);
  const std::vector<float> weights = test::random_f32(kRows * kActive, 101);
  std::vector<int32_t> picks;
  for (int32_t r = 0; r < kRows; ++r) {
    picks.push_back(r % 3);
    picks.push_back(3 + r % 2);
  }
  OpContext op;
  const auto expert = [&](const ExpertWeights& w, int64_t row, const float* weight) {
    std::vector<bf16> g(kFfn), u(kFfn), y(kWidth);
    linear(op.ctx, x.data() + row * kWidth, 1, w.w1, g.data());
    linear(op.ctx, x.data() + row * kWidth, 1, w.w3, u.data());
    for (size_t i = 0; i < kFfn; ++i) {
      const float gate = std::fmin(to_float(g[i]), 0.5f);
      const float up = std::fmax(std::fmin(to_float(u[i]), 0.5f), -0.5f);
      const float a = gate / (1.0f + std::exp(-gate)) * up;
      g[i] = to_bf16(weight != nullptr ? *weight * a : a);
    }
    linear(op.ctx, g.data(), 1, w.w2, y.data());
    return y;
  };
  std::vector<bf16> y(kRows * kWidth);
  MoeArgs args{x.data(), picks.data(), weights.data(), kRows,   kActive, kWidth,
               kFfn,     0.5f,         experts,        &shared, y.data()};
  moe(op.ctx, args);
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<float> sum(kWidth, 0.0f);
    for (int64_t pick = 0; pick < kActive; ++pick) {
      const size_t at = static_cast<size_t>(row * kActive + pick);
      const std::vector<bf16> part =
          expert(experts[static_cast<size_t>(picks[at])], row, &weights[at]);
      for (size_t i = 0; i < kWidth; ++i) {
        sum[i] += to_float(part[i]);
      }
    }
    const std::vector<bf16> last = expert(shared, row, nullptr);
    for (size_t i = 0; i < kWidth; ++i) {
      // libm's exp may flip a bf16 rounding inside; one step of the sum is allowed.
      const float expected = sum[i] + to_float(last[i]);
      EXPECT_NEAR(to_float(y[static_cast<size_t>(row) * kWidth + i]), expected,
                  std::fabs(expected) * 0x1p-7f + 0x1p-12f);
    }
    std::vector<bf16> alone(kWidth);
    MoeArgs one{x.data() + row * kWidth,
                picks.data() + row * kActive,
                weights.data() + row * kActive,
                1,
                kActive,
                kWidth,
                kFfn,
                0.5f,
                experts,
                &shared,
                alone.data()};
    moe(op.ctx, one);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), y.begin() + row * kWidth)) << row;
  }
}

}  // namespace
}  // namespace tessera
