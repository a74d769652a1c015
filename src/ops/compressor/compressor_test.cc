#include "ops/compressor/compressor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

// Specification 7.4: kv (1, 3), scores (0, ln 3) -> 2.5.
TEST(Compressor, WorkedExampleAndChannelsAreIndependent) {
  test::OpContext op;
  const float kv0[2] = {1, 8}, kv1[2] = {3, -8};
  const float s0[2] = {0, 200}, s1[2] = {std::log(3.0f), -200};
  const float* const kv[2] = {kv0, kv1};
  const float* const score[2] = {s0, s1};
  bf16 latent[2];
  pool_groups(op.ctx, kv, score, 2, 2, latent);
  EXPECT_EQ(to_float(latent[0]), 2.5f);
  EXPECT_EQ(to_float(latent[1]), 8.0f);  // no overflow at large scores
}

TEST(Compressor, ThreeRowsPerGroup) {
  test::OpContext op;
  const float a = 3, b = 6, c = 9, zero = 0;
  const float* const kv[3] = {&a, &b, &c};
  const float* const score[3] = {&zero, &zero, &zero};
  bf16 latent;
  pool_groups(op.ctx, kv, score, 3, 1, &latent);
  EXPECT_EQ(to_float(latent), 6.0f);
}

}  // namespace
}  // namespace tessera
