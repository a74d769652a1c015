#include "models/encode_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// A matrix in a format, with its bytes.
struct Encoded {
  std::vector<std::byte> codes, scales;
  Weight weight;
};

Encoded encode(const MatrixFormat& format, const std::vector<float>& values, int64_t outputs,
               int64_t inputs) {
  Encoded e;
  e.codes.resize(static_cast<size_t>(encoded_code_bytes(format, outputs, inputs)));
  e.scales.resize(static_cast<size_t>(encoded_scale_bytes(format, outputs, inputs)));
  float amax = 0;
  for (const float v : values) {
    amax = std::max(amax, std::fabs(v));
  }
  const float global = nvfp4_global_scale(amax);
  encode_rows(format, values.data(), outputs, inputs, global, e.codes.data(), e.scales.data());
  e.weight.outputs = outputs;
  e.weight.inputs = inputs;
  switch (format.format) {
    case StoredFormat::bf16:
      e.weight.format = WeightBf16{e.codes.data()};
      break;
    case StoredFormat::f16:
      e.weight.format = WeightF16{e.codes.data()};
      break;
    case StoredFormat::f32:
      e.weight.format = WeightF32{e.codes.data()};
      break;
    case StoredFormat::fp8_e8m0:
      e.weight.format = WeightFp8Block{e.codes.data(), e.scales.data(), format.block};
      break;
    case StoredFormat::fp8_f32:
      e.weight.format = WeightFp8Scaled{e.codes.data(), e.scales.data(), format.block};
      break;
    case StoredFormat::mxfp4:
      e.weight.format = WeightMxfp4{e.codes.data(), e.scales.data()};
      break;
    case StoredFormat::nvfp4:
      e.weight.format = WeightNvfp4{e.codes.data(), e.scales.data(), global};
      break;
  }
  return e;
}

std::vector<float> decoded(const Weight& weight) {
  std::vector<float> values(static_cast<size_t>(weight.outputs * weight.inputs));
  dequantize_rows(weight, 0, weight.outputs, values.data());
  return values;
}

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(count);
  for (float& v : values) {
    v = normal(random);
  }
  return values;
}

struct Case {
  MatrixFormat format;
  double largest_error;  // of a value, in units of the largest value of its group
};

// Half a step of the coarsest binade of the codes, scales rounded up by at most a factor of two.
const Case kCases[] = {{{StoredFormat::bf16}, 0x1p-8},
                       {{StoredFormat::f16}, 0x1p-11},
                       {{StoredFormat::f32}, 0},
                       {{StoredFormat::fp8_e8m0, 32}, 2 * 16.0 / 448},
                       {{StoredFormat::fp8_f32, 128}, 16.5 / 448},
                       {{StoredFormat::mxfp4}, 2.0 / 6},
                       {{StoredFormat::nvfp4}, 1.1 / 6}};

TEST(EncodeMatrix, ErrorsStayWithinAHalfStep) {
  constexpr int64_t kOutputs = 70, kInputs = 160;
  const std::vector<float> values = random_values(kOutputs * kInputs, 1);
  float largest = 0;
  for (const float v : values) {
    largest = std::max(largest, std::fabs(v));
  }
  for (const Case& c : kCases) {
    const std::vector<float> back = decoded(encode(c.format, values, kOutputs, kInputs).weight);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::fabs(back[i] - values[i]), c.largest_error * static_cast<double>(largest))
          << format_text(c.format) << " " << i;
    }
  }
}

// What a format holds it holds exactly: encoding decoded values again changes none of them.
TEST(EncodeMatrix, DecodedValuesAreKept) {
  constexpr int64_t kOutputs = 64, kInputs = 96;
  const std::vector<float> values = random_values(kOutputs * kInputs, 2);
  for (const Case& c : kCases) {
    if (c.format.format == StoredFormat::fp8_f32 || c.format.format == StoredFormat::nvfp4) {
      continue;  // their scales are rounded numbers themselves
    }
    const std::vector<float> once = decoded(encode(c.format, values, kOutputs, kInputs).weight);
    EXPECT_EQ(decoded(encode(c.format, once, kOutputs, kInputs).weight), once)
        << format_text(c.format);
  }
}

// MXFP4's values are exact in bf16 and, where the scales of a tile are close, in FP8 of 32 x 32:
// the reference converter's promise (checkpoint specification 8.5).
TEST(EncodeMatrix, WiderFormatsHoldMxfp4) {
  constexpr int64_t kOutputs = 32, kInputs = 128;
  const std::vector<float> values = random_values(kOutputs * kInputs, 3);
  const std::vector<float> held =
      decoded(encode({StoredFormat::mxfp4}, values, kOutputs, kInputs).weight);
  for (const MatrixFormat& format :
       {MatrixFormat{StoredFormat::bf16}, MatrixFormat{StoredFormat::fp8_e8m0, 32}}) {
    EXPECT_EQ(decoded(encode(format, held, kOutputs, kInputs).weight), held) << format_text(format);
  }
}

TEST(EncodeMatrix, NoValueIsClipped) {
  for (const float largest : {6.0f, 6.01f, 5.99f, 448.0f, 449.0f, 1e-20f, 3e30f}) {
    std::vector<float> values(32 * 32, 0.0f);
    values[5] = largest;
    for (const Case& c : kCases) {
      const float back = decoded(encode(c.format, values, 32, 32).weight)[5];
      if (c.format.format == StoredFormat::f16 && largest != 6.0f && largest != 448.0f) {
        continue;  // its range is its own
      }
      EXPECT_NEAR(static_cast<double>(back / largest), 1.0, 0.26) << format_text(c.format);
    }
  }
}

TEST(EncodeMatrix, F16RoundsToNearestEven) {
  const std::pair<float, uint16_t> pairs[] = {
      {1.0f, 0x3c00},       {-2.0f, 0xc000},        {65504.0f, 0x7bff},     {65520.0f, 0x7c00},
      {65519.0f, 0x7bff},   {0x1p-24f, 0x0001},     {0x1p-25f, 0x0000},     {0x1.8p-24f, 0x0002},
      {0x1p-14f, 0x0400},   {0x1.ff8p-15f, 0x03ff}, {0x1.ffcp-15f, 0x0400}, {0x1.002p0f, 0x3c00},
      {0x1.006p0f, 0x3c02}, {0x1.ffep0f, 0x4000},   {-0.0f, 0x8000}};
  for (const auto& [value, bits] : pairs) {
    uint16_t code;
    encode_rows({StoredFormat::f16}, &value, 1, 1, 1, reinterpret_cast<std::byte*>(&code), nullptr);
    EXPECT_EQ(code, bits) << value;
  }
}

TEST(EncodeMatrix, InfinitiesAreRefused) {
  for (const Case& c : kCases) {
    std::vector<float> values(32 * 32, 1.0f);
    values[40] = INFINITY;
    EXPECT_THROW(encode(c.format, values, 32, 32), Error) << format_text(c.format);
    values[40] = NAN;
    EXPECT_THROW(encode(c.format, values, 32, 32), Error) << format_text(c.format);
  }
}

// Checkpoint specification 11: with G = 12.
TEST(Nvfp4Cast, WorkedScales) {
  const Nvfp4Cast cast = {12};
  EXPECT_EQ(cast.global(), 0x1p-12f);
  const std::pair<int, int> pairs[] = {{0x6e, 0x10}, {0x73, 0x38}, {0x76, 0x50}, {0x7b, 0x78}};
  for (const auto& [e8m0, e4m3] : pairs) {
    EXPECT_EQ(cast.scale(static_cast<uint8_t>(e8m0)), e4m3);
  }
}

TEST(Nvfp4Cast, IsExactWhereTheScalesAreClose) {
  constexpr int64_t kOutputs = 16, kInputs = 64;
  std::vector<std::byte> codes(kOutputs * kInputs / 2), scales(kOutputs * kInputs / 32);
  std::mt19937 random(4);
  for (std::byte& code : codes) {
    code = static_cast<std::byte>(random());
  }
  for (size_t g = 0; g < scales.size(); ++g) {
    scales[g] = static_cast<std::byte>(100 + g % 18);  // 2^-27 to 2^-10
  }
  std::fill(codes.begin(), codes.begin() + 16, std::byte{0x80});  // a group of zeros
  scales[0] = std::byte{3};
  const Weight weight{WeightMxfp4{codes.data(), scales.data()}, kOutputs, kInputs};
  const std::optional<Nvfp4Cast> cast = nvfp4_cast(weight);
  ASSERT_TRUE(cast.has_value());
  std::vector<std::byte> e4m3;
  for (const std::byte scale : scales) {
    e4m3.insert(e4m3.end(), 2,
                static_cast<std::byte>(cast->scale(std::to_integer<uint8_t>(scale))));
  }
  const Weight nvfp4{WeightNvfp4{codes.data(), e4m3.data(), cast->global()}, kOutputs, kInputs};
  EXPECT_EQ(decoded(nvfp4), decoded(weight));
  scales[5] = std::byte{99};
  EXPECT_FALSE(nvfp4_cast(weight).has_value());
}

}  // namespace
}  // namespace tessera
