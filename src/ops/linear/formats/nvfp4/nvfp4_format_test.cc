#include "ops/linear/formats/nvfp4/nvfp4_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

using kernels::PanelKind;

// Worked example of the checkpoint specification, section 11.
TEST(nvfp4_format, worked_group) {
  const uint8_t codes[8] = {0x21, 0x43, 0x65, 0x87, 0x09, 0xab, 0xcd, 0xef};
  const std::byte scale{0x58};
  const Weight weight{
      WeightNvfp4{reinterpret_cast<const std::byte*>(codes), &scale, 0.0001220703125f}, 1, 16};
  float values[16];
  dequantize_rows(weight, 0, 1, values);
  const float expected[16] = {0.0009765625f,  0.001953125f,
                              0.0029296875f,  0.00390625f,
                              0.005859375f,   0.0078125f,
                              0.01171875f,    0,
                              -0.0009765625f, 0,
                              -0.0029296875f, -0.001953125f,
                              -0.005859375f,  -0.00390625f,
                              -0.01171875f,   -0.0078125f};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], expected[i]) << i;
  }
}

// Section 11: the scales of MXFP4 as E4M3, with the global scale 2^-12.
TEST(nvfp4_format, scales_of_mxfp4) {
  const std::pair<uint8_t, uint8_t> pairs[] = {
      {0x6e, 0x10}, {0x73, 0x38}, {0x76, 0x50}, {0x7b, 0x78}};
  for (const auto& [e8m0, e4m3] : pairs) {
    EXPECT_EQ(kernels::nvfp4_value(7, e4m3) * 0x1p-12f, 6.0f * e8m0_to_float(e8m0));
  }
}

TEST(nvfp4_format, edges) {
  EXPECT_EQ(kernels::nvfp4_value(1, 0x01), 0x1p-10f);  // the smallest scale, no flush
  EXPECT_EQ(kernels::nvfp4_value(7, 0x7e), 2688.0f);
  EXPECT_EQ(kernels::nvfp4_value(15, 0xfe), 2688.0f);  // scales may have a sign
  EXPECT_FALSE(std::signbit(kernels::nvfp4_value(8, 0x38)));
  EXPECT_TRUE(std::isnan(kernels::nvfp4_value(0, 0x7f)));
  EXPECT_TRUE(std::isnan(kernels::nvfp4_value(3, 0xff)));
}

// All codes, in every lane, under all scales, and all scales beside each other.
TEST(nvfp4_format, every_code_and_scale) {
  constexpr int64_t kOutputs = 16, kInputs = 64;
  std::vector<std::byte> codes(kOutputs * kInputs / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::byte>((i * 37 + i / 32 * 11) & 255);
  }
  for (int scale = 0; scale < 256; ++scale) {
    for (const int step : {0, 1, 17}) {
      std::vector<std::byte> scales(kOutputs * kInputs / 16);
      for (size_t i = 0; i < scales.size(); ++i) {
        const int byte = (scale + step * static_cast<int>(i)) & 255;
        // NaN bits are not specified: NaN scales have a test of their own.
        scales[i] = static_cast<std::byte>((byte & 0x7f) == 0x7f ? 0x3c : byte);
      }
      const Weight weight{WeightNvfp4{codes.data(), scales.data()}, kOutputs, kInputs};
      for (const PanelKind kind : {PanelKind::f32, PanelKind::pairs}) {
        test::expect_equal_panels(weight, kind, 0, 0, kInputs);
      }
    }
  }
}

// A NaN scale makes its 16 values NaN at every level, and nothing else.
TEST(nvfp4_format, nan_scales) {
  constexpr int64_t kInputs = 160;
  test::OwnedLayer owned(test::Format::nvfp4, 20, kInputs, 5);
  owned.scales()[13 * (kInputs / 16) + 4] = std::byte{0x7f};
  for (const PanelKind kind : {PanelKind::f32, PanelKind::pairs}) {
    for (const Variant<kernels::UnpackFn>& variant : kernels::kNvfp4Format.panels(kind)) {
      if (variant.isa > detected_isa()) {
        continue;
      }
      alignas(64) std::byte panel[kInputs * 64];
      kernels::UnpackArgs args = kernels::panel_source(owned.layer().weight, 0);
      args.count = kInputs;
      args.panel = panel;
      variant.function(args);
      for (int64_t input = 0; input < kInputs; ++input) {
        for (int64_t row = 0; row < 16; ++row) {
          const float value = kind == PanelKind::f32
                                  ? reinterpret_cast<float*>(panel)[input * 16 + row]
                                  : to_float(reinterpret_cast<bf16*>(
                                        panel)[(input / 2 * 16 + row) * 2 + (input & 1)]);
          ASSERT_EQ(std::isnan(value), row == 13 && input / 16 == 4)
              << isa_name(variant.isa) << " row " << row << " input " << input;
        }
      }
    }
  }
}

TEST(nvfp4_format, panels_of_all_sizes) {
  test::OwnedLayer owned(test::Format::nvfp4, 37, 176, 3);
  test::expect_equal_panels_of_all_sizes(owned.layer().weight);
  test::OwnedLayer wide(test::Format::nvfp4, 16, 2416, 4);
  test::expect_equal_panels(wide.layer().weight, PanelKind::f32, 0, 0, 2416);
  test::expect_equal_panels(wide.layer().weight, PanelKind::pairs, 0, 32, 2368);
}

}  // namespace
}  // namespace tessera
