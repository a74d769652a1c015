#include "ops/linear/formats/mxfp4/mxfp4_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

using kernels::PanelKind;

std::vector<float> dequantized(std::vector<uint8_t> codes, uint8_t scale) {
  const size_t used = codes.size() * 2;
  codes.resize(16);
  Weight weight;
  const std::byte scale_byte{scale};
  weight.format = WeightMxfp4{reinterpret_cast<const std::byte*>(codes.data()), &scale_byte};
  weight.outputs = 1;
  weight.inputs = 32;
  std::vector<float> values(32);
  dequantize_rows(weight, 0, 1, values.data());
  values.resize(used);
  return values;
}

// Worked example of the checkpoint specification, section 11.
TEST(mxfp4_format, worked_group) {
  const std::vector<float> expected = {
      0.015625f,  0.03125f,  0.046875f,  0.0625f,  0.09375f,  0.125f,  0.1875f,  0.0f,
      -0.015625f, -0.03125f, -0.046875f, -0.0625f, -0.09375f, -0.125f, -0.1875f, 0.0f};
  EXPECT_EQ(dequantized({0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f}, 0x7a), expected);
}

// First bytes of layers.0.ffn.experts.0.w1, deepseek_v41 specification 12.2.
TEST(mxfp4_format, real_bytes) {
  const std::vector<float> expected = {
      0.0f,       -.0078125f, 0.0f,      -.0078125f, -.015625f, -.03125f, -.0078125f, .015625f,
      -.0234375f, -.0078125f, -.046875f, -.0078125f, .0078125f, .015625f, -.0078125f, -.0078125f};
  EXPECT_EQ(dequantized({0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa}, 0x78), expected);
}

TEST(mxfp4_format, edges) {
  EXPECT_FALSE(std::signbit(kernels::mxfp4_value(8, 127)));
  EXPECT_EQ(kernels::mxfp4_value(7, 0), 0x1.8p-125f);  // normal: kept
  EXPECT_EQ(kernels::mxfp4_value(2, 0), 0.0f);         // 2^-127: a zero
  EXPECT_TRUE(std::signbit(kernels::mxfp4_value(10, 0)));
  EXPECT_EQ(kernels::mxfp4_value(3, 254), 0x1.8p127f);
  EXPECT_EQ(kernels::mxfp4_value(12, 254), -INFINITY);
  EXPECT_TRUE(std::isnan(kernels::mxfp4_value(0, 255)));
}

// All codes, in every lane, under all scales, and all scales beside each other.
TEST(mxfp4_format, every_code_and_scale) {
  constexpr int64_t kOutputs = 16, kInputs = 64;
  std::vector<std::byte> codes(kOutputs * kInputs / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::byte>((i * 37 + i / 32 * 11) & 255);
  }
  for (int scale = 0; scale < 256; ++scale) {
    for (const int step : {0, 1, 17}) {
      std::vector<std::byte> scales(kOutputs * kInputs / 32);
      for (size_t i = 0; i < scales.size(); ++i) {
        scales[i] = static_cast<std::byte>((scale + step * static_cast<int>(i)) & 255);
      }
      const Weight weight{WeightMxfp4{codes.data(), scales.data()}, kOutputs, kInputs};
      for (const PanelKind kind : {PanelKind::f32, PanelKind::pairs}) {
        test::expect_equal_panels(weight, kind, 0, 0, kInputs);
      }
    }
  }
}

TEST(mxfp4_format, panels_of_all_sizes) {
  test::OwnedLayer owned(test::Format::mxfp4, 37, 160, 3);
  test::expect_equal_panels_of_all_sizes(owned.layer().weight);
  test::OwnedLayer wide(test::Format::mxfp4, 16, 2400, 4);  // more groups than one table holds
  test::expect_equal_panels(wide.layer().weight, PanelKind::f32, 0, 0, 2400);
  test::expect_equal_panels(wide.layer().weight, PanelKind::pairs, 0, 32, 2368);
}

}  // namespace
}  // namespace tessera
