#include "ops/linear/formats/fp8_block/fp8_block_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

using kernels::PanelKind;

std::vector<float> dequantized(const std::vector<uint8_t>& codes, uint8_t scale) {
  Weight weight;
  const std::byte scale_byte{scale};
  weight.format = WeightFp8Block{reinterpret_cast<const std::byte*>(codes.data()), &scale_byte, 32};
  weight.outputs = 1;
  weight.inputs = static_cast<int64_t>(codes.size());
  std::vector<float> values(codes.size());
  dequantize_rows(weight, 0, 1, values.data());
  return values;
}

// Worked example of the checkpoint specification, section 11.
TEST(fp8_block_format, worked_tile) {
  const std::vector<float> expected = {0.001953125f,    0.00390625f, 0.0078125f,
                                       -0.001953125f,   0.875f,      3.814697265625e-06f,
                                       -0.00634765625f, -0.0625f};
  EXPECT_EQ(dequantized({0x38, 0x40, 0x48, 0xb8, 0x7e, 0x01, 0xc5, 0xe0}, 0x76), expected);
}

// First bytes of layers.0.attn.wkv, deepseek_v41 specification 12.2.
TEST(fp8_block_format, real_bytes) {
  const std::vector<float> expected = {-.00390625f, .03515625f,  -.0390625f, .0703125f,
                                       .03125f,     .017578125f, -.03125f,   -.0126953125f};
  EXPECT_EQ(dequantized({0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5}, 0x73), expected);
}

TEST(fp8_block_format, worked_codes) {
  EXPECT_EQ(kernels::fp8_block_value(0x00, 127), 0.0f);
  EXPECT_EQ(kernels::fp8_block_value(0x07, 127), 0.013671875f);
  EXPECT_EQ(kernels::fp8_block_value(0xfe, 127), -448.0f);
  EXPECT_TRUE(std::signbit(kernels::fp8_block_value(0x80, 127)));
  EXPECT_TRUE(std::isnan(kernels::fp8_block_value(0x7f, 127)));
  EXPECT_TRUE(std::isnan(kernels::fp8_block_value(0x38, 255)));
  EXPECT_EQ(kernels::fp8_block_value(0x7e, 0), 448.0f * 0x1p-127f);  // normal: kept
  EXPECT_EQ(kernels::fp8_block_value(0x38, 0), 0.0f);                // 2^-127: a zero
  EXPECT_TRUE(std::signbit(kernels::fp8_block_value(0xb8, 0)));
  EXPECT_EQ(kernels::fp8_block_value(0x38, 254), 0x1p127f);
  EXPECT_EQ(kernels::fp8_block_value(0xc0, 254), -INFINITY);
}

// All codes, in every lane, under all scales.
TEST(fp8_block_format, every_code_and_scale) {
  constexpr int64_t kOutputs = 16, kInputs = 256;
  std::vector<std::byte> codes(kOutputs * kInputs);
  for (int64_t o = 0; o < kOutputs; ++o) {
    for (int64_t i = 0; i < kInputs; ++i) {
      codes[static_cast<size_t>(o * kInputs + i)] = static_cast<std::byte>((i + 13 * o) & 255);
    }
  }
  std::vector<std::byte> finite = codes;  // without NaN: the vector path
  for (std::byte& code : finite) {
    code = (code & std::byte{0x7f}) == std::byte{0x7f} ? std::byte{0x7e} : code;
  }
  for (int scale = 0; scale < 256; ++scale) {
    const std::vector<std::byte> scales(kInputs / 32, static_cast<std::byte>(scale));
    for (const std::vector<std::byte>* bytes : {&codes, &finite}) {
      const Weight weight{WeightFp8Block{bytes->data(), scales.data(), 32}, kOutputs, kInputs};
      for (const PanelKind kind : {PanelKind::f32, PanelKind::pairs}) {
        test::expect_equal_panels(weight, kind, 0, 0, kInputs);
      }
    }
  }
}

TEST(fp8_block_format, panels_of_all_sizes) {
  test::OwnedLayer small_blocks(test::Format::fp8_block, 37, 150, 3);
  test::expect_equal_panels_of_all_sizes(small_blocks.layer().weight);
  test::OwnedLayer large_blocks(test::Format::fp8_block, 150, 200, 4, 128);
  test::expect_equal_panels_of_all_sizes(large_blocks.layer().weight);
}

}  // namespace
}  // namespace tessera
