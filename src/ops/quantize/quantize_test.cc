#include "ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> out;
  for (const float v : values) {
    out.push_back(to_bf16(v));
  }
  return out;
}

TEST(Quantize, WorkedGroupWithE4m3Scale) {
  const std::vector<bf16> x = rounded(
      {1, -.30078125f, .10986328f, .49023438f, -.8984375f, .05004883f, 0, .69921875f, .33007812f,
       -.66015625f, .20996094f, .83984375f, -.02001953f, .40039062f, .6015625f, -1.203125f});
  const std::vector<float> expected = {.8125f, -.3046875f, .1015625f, .40625f,   -.8125f,  0,
                                       0,      .609375f,   .3046875f, -.609375f, .203125f, .8125f,
                                       -0.0f,  .40625f,    .609375f,  -1.21875f};
  OpContext op;
  std::vector<bf16> y(16);
  quantize_dequantize(op.ctx, GroupFormat::e2m1_e4m3_16, x.data(), 1, 16, y.data());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(to_float(y[i]), expected[i]) << i;
    EXPECT_EQ(std::signbit(to_float(y[i])), std::signbit(expected[i])) << i;
  }
}

// Scale exponents of the specification: amax -> E.
TEST(Quantize, E4m3ScaleSamples) {
  const std::vector<std::pair<float, int>> samples = {{448, 0}, {450, 1},     {7, -6},
                                                      {1, -8},  {1e-4f, -22}, {0, -22}};
  for (const auto& [amax, exponent] : samples) {
    std::vector<bf16> x(32, bf16{0});
    x[5] = to_bf16(amax);
    std::vector<std::byte> codes(32), scales(1);
    pack_row(GroupFormat::e4m3_e8m0_32, x.data(), 32, codes.data(), scales.data());
    EXPECT_EQ(std::to_integer<int>(scales[0]) - 127, exponent) << amax;
  }
}

TEST(Quantize, E2m1PowerOfTwoScaleSamples) {
  const std::vector<std::pair<float, int>> samples = {{6, 0}, {6.03125f, 1}, {3, -1}, {.75f, -3}};
  for (const auto& [amax, exponent] : samples) {
    std::vector<bf16> x(32, bf16{0});
    x[31] = to_bf16(-amax);
    std::vector<std::byte> codes(16), scales(1);
    pack_row(GroupFormat::e2m1_e8m0_32, x.data(), 32, codes.data(), scales.data());
    EXPECT_EQ(std::to_integer<int>(scales[0]) - 127, exponent) << amax;
  }
}

// Packing and unpacking is quantising and dequantising, for every format and level, at many
// magnitudes.
TEST(Quantize, PackedRowsEqualFakeQuantisationOnEveryLevel) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr int64_t kRows = 37;
  constexpr int64_t kWidth = 96;
  std::vector<bf16> x(kRows * kWidth);
  for (size_t i = 0; i < x.size(); ++i) {
    const int exponent = static_cast<int>(random() % 60) - 40;
    x[i] = to_bf16(std::ldexp(normal(random), i % 5 == 0 ? exponent : 0));
  }
  for (const GroupFormat format :
       {GroupFormat::e4m3_e8m0_32, GroupFormat::e2m1_e8m0_32, GroupFormat::e2m1_e4m3_16}) {
    for (const IsaLevel isa : supported_isas()) {
      OpContext op(2, isa);
      std::vector<bf16> y(x.size());
      quantize_dequantize(op.ctx, format, x.data(), kRows, kWidth, y.data());
      std::vector<std::byte> codes(static_cast<size_t>(group_code_bytes(format, kWidth)));
      std::vector<std::byte> scales(static_cast<size_t>(group_scale_bytes(format, kWidth)));
      std::vector<bf16> unpacked(kWidth);
      for (int64_t row = 0; row < kRows; ++row) {
        pack_row(format, x.data() + row * kWidth, kWidth, codes.data(), scales.data());
        unpack_row(format, codes.data(), scales.data(), kWidth, unpacked.data());
        for (int64_t i = 0; i < kWidth; ++i) {
          ASSERT_EQ(unpacked[static_cast<size_t>(i)].bits,
                    y[static_cast<size_t>(row * kWidth + i)].bits)
              << isa_name(isa) << " format " << static_cast<int>(format) << " row " << row
              << " column " << i;
        }
      }
    }
  }
}

TEST(Quantize, AShortLastGroupIsAGroupOfItsOwn) {
  for (const IsaLevel isa : supported_isas()) {
    OpContext op(1, isa);
    std::vector<bf16> x = rounded(std::vector<float>(40, 1e-4f));
    x[0] = to_bf16(100.0f);
    std::vector<bf16> y(40);
    quantize_dequantize_e4m3(op.ctx, x.data(), 1, 40, y.data());
    EXPECT_EQ(to_float(y[1]), 0.0f);  // scale 2^-2, steps of 2^-11: 1e-4 is below half a step
    EXPECT_NEAR(to_float(y[39]), 1e-4f, 1e-4f / 16);
  }
}

// NVFP4's rule worked by hand: input scale 2^-4, amax 12 -> s = e4m3(12 / (6 * 2^-4)) = 32, steps
// of s * 2^-4 = 2; y = e2m1(x / 2) * 32.
TEST(Quantize, CalibratedE2m1) {
  test::OpContext op;
  const float in[16] = {12, -12, 1, -1, 0.5f, -0.4f, 3, 5, 7, 9, 11, 0, -2, 4, 6, 8};
  const float codes[16] = {6, -6, 0.5f, -0.5f, 0, -0.0f, 1.5f, 2, 4, 4, 6, 0, -1, 2, 3, 4};
  std::vector<bf16> x, y(16);
  for (const float value : in) {
    x.push_back(to_bf16(value));
  }
  quantize_e2m1_calibrated(op.ctx, x.data(), 1, 16, 0x1p-4f, y.data());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(to_float(y[i]), codes[i] * 32.0f) << i;
  }
}

// Beyond the calibrated range the scale is 448 and values are clamped; groups of zeros and groups
// too small for any scale are zeros; NaN stays.
TEST(Quantize, CalibratedE2m1AtItsEdges) {
  test::OpContext op;
  std::vector<bf16> x(64, to_bf16(0.0f)), y(64);
  x[0] = to_bf16(1e6f);
  x[1] = to_bf16(-100.0f);
  x[16] = to_bf16(1e-30f);
  x[32] = to_bf16(NAN);
  x[33] = to_bf16(2.0f);
  quantize_e2m1_calibrated(op.ctx, x.data(), 2, 32, 0x1p-6f, y.data());
  EXPECT_EQ(to_float(y[0]), 6.0f * 448);   // 1e6 / (448 * 2^-6) is far above 6
  EXPECT_EQ(to_float(y[1]), -6.0f * 448);  // so is 100 / 7
  EXPECT_EQ(to_float(y[2]), 0.0f);
  EXPECT_EQ(to_float(y[16]), 0.0f);
  EXPECT_TRUE(std::isnan(to_float(y[32])));
  EXPECT_EQ(to_float(y[33]),
            132.0f);  // s = e4m3(2 / (6 * 2^-6)) = 22, 2 / (22 * 2^-6) = 5.8: 6 * 22
}

// The definition, value by value, on every level: many magnitudes, ties, zeros, infinities, NaN.
TEST(Quantize, CalibratedE2m1IsItsDefinitionOnEveryLevel) {
  constexpr int64_t kRows = 96;
  constexpr int64_t kWidth = 80;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<bf16> x(kRows * kWidth);
  for (size_t i = 0; i < x.size(); ++i) {
    const int exponent = static_cast<int>(i / 160 % 48) - 28;
    const float eighths = static_cast<float>(static_cast<int>(random() % 97) - 48) / 8;
    x[i] = to_bf16(std::ldexp(i % 2 == 0 ? normal(random) : eighths, exponent));
  }
  x[100] = to_bf16(NAN);
  x[201] = to_bf16(-INFINITY);
  x[302] = to_bf16(-0.0f);
  for (const float input_scale : {0x1p-6f, 0.0137f, 3.1e-4f}) {
    std::vector<bf16> expected(x.size());
    for (size_t first = 0; first < x.size(); first += 16) {
      float largest = 0;
      for (size_t i = first; i < first + 16; ++i) {
        largest = std::fmax(largest, std::fabs(to_float(x[i])));
      }
      const float scale = e4m3_to_float(float_to_e4m3(largest / (6.0f * input_scale)));
      const float step = scale * input_scale;
      for (size_t i = first; i < first + 16; ++i) {
        const float value = to_float(x[i]);
        const float code = step == 0.0f ? 0.0f : e2m1_to_float(float_to_e2m1(value / step));
        expected[i] = to_bf16(std::isnan(value) ? value : code * scale);
      }
    }
    for (const IsaLevel isa : supported_isas()) {
      OpContext op(2, isa);
      std::vector<bf16> y(x.size());
      quantize_e2m1_calibrated(op.ctx, x.data(), kRows, kWidth, input_scale, y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(y[i].bits, expected[i].bits)
            << isa_name(isa) << ", scale " << input_scale << ", x[" << i << "] " << to_float(x[i]);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
