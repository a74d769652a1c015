#include "ops/rope/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

TEST(Rope, CosSinAreRoundedFromDouble) {
  for (const float angle :
       {0.0f, 1e-8f, 0.5f, 1.0f, 3.14159274f, 100.25f, 65535.0f, 999983.0f, 1048575.0f}) {
    float c = 0, s = 0;
    cos_sin(angle, &c, &s);
    EXPECT_EQ(c, static_cast<float>(std::cos(static_cast<double>(angle)))) << angle;
    EXPECT_EQ(s, static_cast<float>(std::sin(static_cast<double>(angle)))) << angle;
  }
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const float angle = static_cast<float>(i) * 5.2371f - 1000.0f;
    float c = 0, s = 0;
    cos_sin(angle, &c, &s);
    worst =
        std::fmax(worst, std::fabs(static_cast<double>(c) - std::cos(static_cast<double>(angle))));
    worst =
        std::fmax(worst, std::fabs(static_cast<double>(s) - std::sin(static_cast<double>(angle))));
  }
  EXPECT_LE(worst, 0x1p-25 + 1e-12);  // half a unit in the last place below 1
}

// Tables of the specification, section 15.1, as fp32 bits.
TEST(Rope, ReleasedFrequencyTables) {
  const std::vector<uint32_t> yarn = {
      0x3f800000, 0x3f300a3a, 0x3ef21c1f, 0x3ea67d01, 0x3e64f92e, 0x3e1d7475, 0x3dd88cb4,
      0x3d94e963, 0x3d4ccccd, 0x3d0cd4fb, 0x3cc1b019, 0x3c8530ce, 0x3c372dbf, 0x3bfbed88,
      0x3bad3d5e, 0x3b6e4237, 0x3b147ae1, 0x3ab714e0, 0x3a5ebdb6, 0x3a0530ce, 0x399bb3af,
      0x39305978, 0x38be904d, 0x383e9b5f, 0x37a3d70c, 0x36b443d0, 0x3677eba6, 0x362a7be8,
      0x35ea77ff, 0x35a13bdc, 0x355dbf30, 0x35187c4d};
  const std::vector<uint32_t> plain = {
      0x3f800000, 0x3f3ff911, 0x3f0ff59a, 0x3ed7e89b, 0x3ea1e89b, 0x3e72d423, 0x3e361887,
      0x3e088d77, 0x3dcccccd, 0x3d99940d, 0x3d6655c2, 0x3d2cba15, 0x3d0186e3, 0x3cc2434f,
      0x3c91ad39, 0x3c5a7bf2, 0x3c23d70a, 0x3bf5b9b0, 0x3bb8449c, 0x3b8a2e77, 0x3b4f3e38,
      0x3b1b690d, 0x3ae91528, 0x3aaec98e, 0x3a83126f, 0x3a44948c, 0x3a136a16, 0x39dd1725,
      0x39a5cb60, 0x3978a815, 0x393a7753, 0x390bd472};
  const std::vector<float> ours_yarn = rope_frequencies(64, 160000, {65536, 16, 32, 1});
  const std::vector<float> ours_plain = rope_frequencies(64, 10000, {});
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(ours_yarn[i]), yarn[i]) << i;
    EXPECT_EQ(std::bit_cast<uint32_t>(ours_plain[i]), plain[i]) << i;
  }
}

// Worked example of section 7.1: x = [1,2,3,4], frequencies [1, 0.01], position 3.
TEST(Rope, AdjacentPairsTurnTheLastElementsAndTheInverseTurnsBack) {
  OpContext op;
  const int64_t position = 3;
  float cos[2], sin[2];
  rope_tables(op.ctx, &position, 1, {1.0f, 0.01f}, cos, sin);
  std::vector<bf16> x = {to_bf16(9), to_bf16(8), to_bf16(1), to_bf16(2), to_bf16(3), to_bf16(4)};
  rotate_adjacent(op.ctx, x.data(), 1, 1, 6, 4, cos, sin, Rotation::forward);
  const float expected[6] = {9, 8, -1.27223f, -1.83886f, 2.87867f, 4.08819f};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(to_float(x[i]), expected[i], std::fabs(expected[i]) * 0x1p-8) << i;
  }
  rotate_adjacent(op.ctx, x.data(), 1, 1, 6, 4, cos, sin, Rotation::inverse);
  for (size_t i = 2; i < 6; ++i) {
    EXPECT_NEAR(to_float(x[i]), static_cast<float>(i - 1), 0.03f) << i;
  }
}

TEST(Rope, HalfSplitPairs) {
  OpContext op;
  const float angle[2] = {3.0f, 0.03f};
  float cos[2], sin[2];
  for (int i = 0; i < 2; ++i) {
    cos_sin(angle[i], &cos[i], &sin[i]);
  }
  std::vector<float> x = {1, 2, 3, 4, 77};  // stride 5: the last element stays
  rotate_halves(op.ctx, x.data(), 1, 5, 1, 4, cos, sin);
  const float expected[5] = {-1.41335f, 1.87912f, -2.82886f, 4.05819f, 77};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(x[i], expected[i], 1e-5f) << i;
  }
}

}  // namespace
}  // namespace tessera
