#include "ops/linear/formats/fp8_scaled/fp8_scaled_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

// Checkpoint specification, section 11: the codes of the FP8 tile, times a scale that is no power
// of two.
TEST(fp8_scaled_format, worked_tile) {
  const uint8_t codes[8] = {0x38, 0x40, 0x48, 0xb8, 0x7e, 0x01, 0xc5, 0xe0};
  const float scale = 0.3f;
  const Weight weight{WeightFp8Scaled{reinterpret_cast<const std::byte*>(codes),
                                      reinterpret_cast<const std::byte*>(&scale)},
                      1, 8};
  float values[8];
  dequantize_rows(weight, 0, 1, values);
  const float unscaled[8] = {1, 2, 4, -1, 448, 0x1p-9f, -3.25f, -32};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(values[i], unscaled[i] * 0.3f);
  }
}

// The panels hold the codes' values whatever the scales are, in both kinds of panel.
TEST(fp8_scaled_format, panels_hold_codes) {
  test::OwnedLayer owned(test::Format::fp8_scaled, 70, 160, 2);
  test::expect_equal_panels_of_all_sizes(owned.layer().weight);
  alignas(64) float panel[160 * 16];
  kernels::UnpackArgs args = kernels::panel_source(owned.layer().weight, 4);
  args.count = 160;
  args.panel = panel;
  kernels::kFp8ScaledFormat.f32_panels[0].function(args);
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t input = 0; input < 160; ++input) {
      const uint8_t code = static_cast<uint8_t>(owned.codes()[(64 + row) * 160 + input]);
      ASSERT_EQ(panel[input * 16 + row], e4m3_to_float(code));
    }
  }
}

TEST(fp8_scaled_format, scales_by_tile) {
  const float scales[6] = {1, 2, 3, 4, 5, 6};
  WeightFp8Scaled weight{nullptr, reinterpret_cast<const std::byte*>(scales), 64};
  EXPECT_EQ(kernels::fp8_scaled_scale(weight, 150, 0, 2), 3);
  EXPECT_EQ(kernels::fp8_scaled_scale(weight, 150, 63, 0), 1);
  EXPECT_EQ(kernels::fp8_scaled_scale(weight, 150, 64, 1), 5);
  const bf16 rounded[2] = {to_bf16(0.5f), to_bf16(-3.0f)};
  weight.scales = reinterpret_cast<const std::byte*>(rounded);
  weight.scale_type = DType::bf16;
  EXPECT_EQ(kernels::fp8_scaled_scale(weight, 64, 65, 0), -3);
}

}  // namespace
}  // namespace tessera
