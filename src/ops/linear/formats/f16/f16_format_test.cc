#include "ops/linear/formats/f16/f16_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

TEST(f16_format, every_number_in_every_lane) {
  std::vector<uint16_t> stored(65536);
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i] = static_cast<uint16_t>(i * 40503U);  // odd: every number once
  }
  const auto is_nan = [](uint16_t h) { return (h & 0x7fffU) > 0x7c00U; };
  for (uint16_t& h : stored) {
    h = is_nan(h) ? 0x3c00 : h;
  }
  const Weight weight{WeightF16{reinterpret_cast<const std::byte*>(stored.data())}, 64, 1024};
  for (int64_t panel = 0; panel < 4; ++panel) {
    test::expect_equal_panels(weight, kernels::PanelKind::f32, panel, 0, 1024);
  }
  std::vector<float> values(64 * 1024);
  dequantize_rows(weight, 0, 64, values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], f16_to_float(stored[i]));
  }
}

// Subnormal numbers of binary16 are kept, 65504 is the largest number.
TEST(f16_format, edges) {
  const uint16_t stored[4] = {0x0001, 0x83ff, 0x7bff, 0xfc00};
  const Weight weight{WeightF16{reinterpret_cast<const std::byte*>(stored)}, 1, 4};
  float values[4];
  dequantize_rows(weight, 0, 1, values);
  EXPECT_EQ(values[0], 0x1p-24f);
  EXPECT_EQ(values[1], -0x3ffp-24f);
  EXPECT_EQ(values[2], 65504.0f);
  EXPECT_EQ(values[3], -INFINITY);
}

TEST(f16_format, panels_of_all_sizes) {
  test::OwnedLayer owned(test::Format::f16, 35, 75, 1);
  test::expect_equal_panels_of_all_sizes(owned.layer().weight);
}

}  // namespace
}  // namespace tessera
