#include "ops/hyper_connections/hyper_connections.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

// Worked example of specification section 8 (scale 1, base 0).
class WorkedExample : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> m = {.3f, -.7f, 1.1f, .2f,  0,    .5f, -.5f, 1, 2,   0,     -1,  .5f,
                                  .1f, 1.5f, .3f,  -.2f, -.4f, .6f, 2.2f, 0, .9f, -1.3f, .2f, 1};
    const std::vector<float> scale(3, 1.0f), base(24, 0.0f);
    const float rstd = 1.0f;
    split_mixes(op.ctx, {}, m.data(), &rstd, 1, reinterpret_cast<const std::byte*>(scale.data()),
                reinterpret_cast<const std::byte*>(base.data()), pre, post, comb);
  }
  OpContext op;
  float pre[4], post[4], comb[16];
};

TEST_F(WorkedExample, Mixes) {
  const float want_pre[4] = {.5744435f, .3318132f, .7502611f, .549835f};
  const float want_post[4] = {1, 1.2449187f, .7550814f, 1.4621172f};
  const float want_comb[16] = {.5957105f, .1317243f, .0354973f, .2370669f, .0960736f, .636546f,
                               .1404412f, .1269382f, .041296f,  .1834055f, .6654228f, .1098748f,
                               .266919f,  .0483233f, .1586377f, .5261192f};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(pre[i], want_pre[i], 2e-7f);
    EXPECT_NEAR(post[i], want_post[i], 2e-7f);
  }
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(comb[i], want_comb[i], 3e-7f) << i;
  }
}

TEST_F(WorkedExample, CollapseAndExpandIndexSourceThenDestination) {
  std::vector<bf16> x = {to_bf16(1), to_bf16(2), to_bf16(3), to_bf16(4)};  // 4 copies, width 1
  bf16 collapsed;
  collapse(op.ctx, 4, x.data(), pre, 1, 1, &collapsed);
  EXPECT_EQ(collapsed, to_bf16(5.6881935f));
  const bf16 y = to_bf16(10);
  expand(op.ctx, 4, &y, post, comb, 1, 1, x.data());
  const float expected[4] = {11.9794215f, 14.5975130f, 10.4980123f, 17.5462146f};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(x[i], to_bf16(expected[i])) << i;
  }
}

TEST(HyperConnections, ProjectionIsExactAndEqualOnEveryLevel) {
  constexpr int64_t kRows = 7, kOutputs = 5;
  for (const int64_t width : {1, 15, 16, 40, 384}) {
    const std::vector<bf16> x = test::random_bf16(kRows * width, 1);
    const std::vector<float> fn = test::random_f32(kOutputs * width, 2);
    for (const IsaLevel isa : supported_isas()) {
      OpContext other(3, isa);
      std::vector<float> m(kRows * kOutputs);
      project_mixes(other.ctx, x.data(), kRows, width,
                    reinterpret_cast<const std::byte*>(fn.data()), kOutputs, m.data());
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t o = 0; o < kOutputs; ++o) {
          long double sum = 0;
          for (int64_t i = 0; i < width; ++i) {
            sum += static_cast<long double>(to_float(x[static_cast<size_t>(r * width + i)])) *
                   static_cast<long double>(fn[static_cast<size_t>(o * width + i)]);
          }
          EXPECT_EQ(m[static_cast<size_t>(r * kOutputs + o)], static_cast<float>(sum))
              << isa_name(isa) << " width " << width;
        }
      }
    }
  }
}

TEST(HyperConnections, MeanOfCopies) {
  OpContext op;
  const std::vector<bf16> x = {to_bf16(1), to_bf16(2), to_bf16(3), to_bf16(6)};
  bf16 y;
  mean_of_copies(op.ctx, 4, x.data(), 1, 1, &y);
  EXPECT_EQ(to_float(y), 3.0f);
}

}  // namespace
}  // namespace tessera
