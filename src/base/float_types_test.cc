#include "base/float_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

// Nearest code by search over all codes, ties to the even code: independent of the bit tricks.
template <typename Decode>
uint8_t nearest_code(float x, int codes, float limit, Decode decode) {
  const float clamped = std::fmin(std::fmax(x, -limit), limit);
  int best = -1;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < codes; ++code) {
    const float value = decode(static_cast<uint8_t>(code));
    if (std::isnan(value) || std::signbit(value) != std::signbit(x)) {
      continue;
    }
    const double distance = std::fabs(static_cast<double>(value) - static_cast<double>(clamped));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return static_cast<uint8_t>(best);
}

TEST(FloatTypes, Bf16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::infinity()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(FloatTypes, E4m3SpecificationSamples) {
  EXPECT_EQ(e4m3_to_float(0x01), 0.001953125f);
  EXPECT_EQ(e4m3_to_float(0x08), 0.015625f);
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(e4m3_to_float(0xc5), -3.25f);
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7f)));
  const float samples[][2] = {{0.3f, 0.3125f},    {17, 16},          {19, 20},
                              {432, 448},         {1.0625f, 1.0f},   {1.1875f, 1.25f},
                              {0x1p-10f, 0.0f},   {0.001f, 0x1p-9f}, {1000.0f, 448.0f},
                              {-1000.0f, -448.0f}};
  for (const auto& sample : samples) {
    EXPECT_EQ(e4m3_to_float(float_to_e4m3(sample[0])), sample[1]) << sample[0];
  }
}

TEST(FloatTypes, EveryE4m3CodeAndBorderRoundsAsASearchDoes) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if (std::isnan(value)) {
      continue;
    }
    EXPECT_EQ(float_to_e4m3(value), code);
    for (const float factor : {0.5f, 0.97f, 1.0625f, 1.03125f, 1.1f, 1.5f}) {
      const float x = value * factor;
      EXPECT_EQ(float_to_e4m3(x), nearest_code(x, 256, 448.0f, e4m3_to_float)) << x;
    }
  }
}

TEST(FloatTypes, E2m1TiesGoToTheEvenCode) {
  const float samples[][2] = {{0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2},
                              {2.5f, 2},  {3.5f, 4},  {5, 4},     {100, 6}};
  for (const auto& sample : samples) {
    EXPECT_EQ(e2m1_to_float(float_to_e2m1(sample[0])), sample[1]) << sample[0];
    EXPECT_EQ(e2m1_to_float(float_to_e2m1(-sample[0])), -sample[1]) << sample[0];
  }
  for (int i = -700; i <= 700; ++i) {
    const float x = static_cast<float>(i) / 100.0f;
    EXPECT_EQ(float_to_e2m1(x), nearest_code(x, 16, 6.0f, e2m1_to_float)) << x;
  }
}

TEST(FloatTypes, E8m0) {
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_float(0x70), 0x1p-15f);
  EXPECT_EQ(e8m0_to_float(127), 1.0f);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(FloatTypes, F16) {
  EXPECT_EQ(f16_to_float(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_float(0xc000), -2.0f);
  EXPECT_TRUE(std::isinf(f16_to_float(0x7c00)));
}

}  // namespace
}  // namespace tessera
