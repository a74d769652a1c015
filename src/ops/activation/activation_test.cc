#include "ops/activation/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

TEST(Activation, GeluIsTheErfForm) {
  OpContext op;
  const std::vector<float> x = {-1.0f, 0.0f, 2.0f};
  std::vector<float> y(3);
  gelu(op.ctx, x.data(), 3, y.data());
  EXPECT_NEAR(y[0], -0.15865525f, 1e-7f);  // the tanh form gives -0.15880801
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_NEAR(y[2], 1.9544997f, 3e-7f);
}

TEST(Activation, EveryLevelGivesTheSameBits) {
  constexpr int64_t kRows = 5;
  for (const int64_t width : {1, 7, 16, 33, 96, 2304}) {
    const std::vector<bf16> x = test::random_bf16(kRows * 2 * width, 1, 4.0f);
    const std::vector<float> weight = test::random_f32(kRows, 2);
    std::vector<bf16> silu_reference, swiglu_reference;
    for (const IsaLevel isa : supported_isas()) {
      OpContext op(2, isa);
      std::vector<bf16> silu(static_cast<size_t>(kRows * width)), gated(silu.size());
      silu_mul(op.ctx, x.data(), kRows, width, silu.data());
      swiglu(op.ctx, x.data(), x.data() + kRows * width, weight.data(), kRows, width, 2.5f,
             gated.data());
      if (isa == IsaLevel::reference) {
        silu_reference = silu;
        swiglu_reference = gated;
      }
      EXPECT_EQ(silu, silu_reference) << isa_name(isa) << " width " << width;
      EXPECT_EQ(gated, swiglu_reference) << isa_name(isa) << " width " << width;
    }
  }
}

// The gate is clamped from above only, before silu; the weight is applied before the rounding.
TEST(Activation, SwigluClamps) {
  OpContext op;
  const std::vector<bf16> gate = {to_bf16(20), to_bf16(-20), to_bf16(1)};
  const std::vector<bf16> up = {to_bf16(20), to_bf16(-20), to_bf16(2)};
  std::vector<bf16> y(3);
  swiglu(op.ctx, gate.data(), up.data(), nullptr, 1, 3, 10.0f, y.data());
  EXPECT_EQ(to_float(y[0]), 100.0f);  // silu(10) * 10 = 99.9955
  EXPECT_NEAR(to_float(y[1]), 20.0f * std::exp(-20.0f) * 10.0f, 1e-9f);
  EXPECT_EQ(y[2], to_bf16(2.0f / (1.0f + std::exp(-1.0f))));
}

// The tower rounds silu before the product; one rounding alone would differ for some of these.
TEST(Activation, SiluMulRoundsTwice) {
  OpContext op;
  const std::vector<bf16> x = test::random_bf16(2 * 512, 9);
  std::vector<bf16> y(512);
  silu_mul(op.ctx, x.data(), 1, 512, y.data());
  int differs_from_one_rounding = 0;
  for (size_t i = 0; i < 512; ++i) {
    const double gate = to_float(x[i]);
    const float silu = static_cast<float>(gate / (1 + std::exp(-gate)));
    EXPECT_EQ(y[i], to_bf16(round_bf16(silu) * to_float(x[512 + i]))) << i;
    differs_from_one_rounding += y[i] == to_bf16(silu * to_float(x[512 + i])) ? 0 : 1;
  }
  EXPECT_GT(differs_from_one_rounding, 0);
}

}  // namespace
}  // namespace tessera
