#include "ops/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/linear/test_weights.h"
#include "ops/linear/variants.h"
#include "ops/quantize/quantize.h"

namespace tessera {
namespace {

using test::Format;
using test::OwnedLayer;

struct Machine {
  explicit Machine(IsaLevel isa = active_isa(), int thread_count = 1)
      : threads(thread_count), ctx{threads, scratch, isa, {}} {}
  ThreadPool threads;
  Arena scratch;
  ExecContext ctx;
};

// Every way to compute: each level, and at the highest one both multiply instructions.
struct Way {
  IsaLevel isa;
  bool may_use_dot;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const IsaLevel isa : supported_isas()) {
    all.push_back({isa, false});
    if (isa == IsaLevel::avx512) {
      all.push_back({isa, true});
    }
  }
  return all;
}

std::string name(const Way& way) {
  return str_cat(isa_name(way.isa), way.may_use_dot ? " dot" : "");
}

// W without what multiplies sums: NVFP4's global scale, the scales of fp8_scaled.
std::vector<float> panel_values(Weight weight) {
  std::vector<float> ones;
  if (WeightNvfp4* nvfp4 = std::get_if<WeightNvfp4>(&weight.format)) {
    nvfp4->global = 1;
  } else if (WeightFp8Scaled* scaled = std::get_if<WeightFp8Scaled>(&weight.format)) {
    ones.assign(static_cast<size_t>(weight.outputs * weight.inputs), 1.0f);
    scaled->scales = reinterpret_cast<const std::byte*>(ones.data());
    scaled->scale_type = DType::f32;
  }
  std::vector<float> w(static_cast<size_t>(weight.outputs * weight.inputs));
  dequantize_rows(weight, 0, weight.outputs, w.data());
  return w;
}

// The contract of linear.h in plain words, on its own. x is as the input rule leaves it.
std::vector<float> defined_product(const std::vector<float>& x, int64_t rows, const Linear& layer) {
  const ScopedFlushSubnormals flush;
  const int64_t inputs = layer.weight.inputs;
  const int64_t outputs = layer.weight.outputs;
  const std::vector<float> w = panel_values(layer.weight);
  const WeightFp8Scaled* scaled = std::get_if<WeightFp8Scaled>(&layer.weight.format);
  const WeightNvfp4* nvfp4 = std::get_if<WeightNvfp4>(&layer.weight.format);
  const int64_t block = scaled != nullptr ? scaled->block : inputs;
  std::vector<float> y(static_cast<size_t>(rows * outputs));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      const float* xr = x.data() + r * inputs;
      const float* wo = w.data() + o * inputs;
      float all = 0;
      for (int64_t first = 0; first < inputs; first += block) {
        const int64_t last = std::min(first + block, inputs);
        float a = 0;
        for (int64_t k = first; k < last; k += 2) {
          if (k + 1 < last) {
            a = std::fma(xr[k + 1], wo[k + 1], a);
          }
          a = std::fma(xr[k], wo[k], a);
        }
        const int64_t tile =
            scaled == nullptr ? 0 : o / block * ((inputs + block - 1) / block) + first / block;
        if (scaled == nullptr) {
          all = a;
        } else if (scaled->scale_type == DType::f32) {
          float scale;
          std::memcpy(&scale, scaled->scales + tile * 4, 4);
          all = std::fma(a, scale, all);
        } else {
          bf16 scale;
          std::memcpy(&scale, scaled->scales + tile * 2, 2);
          all = std::fma(a, to_float(scale), all);
        }
      }
      if (nvfp4 != nullptr) {
        all = all * (nvfp4->global * layer.input_scale);
      }
      if (layer.bias != nullptr) {
        bf16 bias;
        std::memcpy(&bias, layer.bias + o * 2, 2);
        all = all + to_float(bias);
      }
      y[static_cast<size_t>(r * outputs + o)] = all;
    }
  }
  return y;
}

// The number of inputs is a multiple of it.
int64_t input_unit(Format format) {
  return format == Format::mxfp4 ? 32 : format == Format::nvfp4 ? 16 : 1;
}

std::vector<float> widened(const std::vector<bf16>& x) {
  std::vector<float> wide;
  for (const bf16 v : x) {
    wide.push_back(to_float(v));
  }
  return wide;
}

std::vector<bf16> rounded(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) {
    y.push_back(to_bf16(v));
  }
  return y;
}

std::vector<float> run_f32(const Way& way, const bf16* x, int64_t rows, const Linear& layer,
                           int threads = 1) {
  Machine m(way.isa, threads);
  std::vector<float> y(static_cast<size_t>(rows * layer.weight.outputs), NAN);
  const LinearCall call{x, rows, &layer, y.data(), DType::f32};
  kernels::run_linear(m.ctx, {&call, 1}, way.may_use_dot);
  return y;
}

std::vector<bf16> run_bf16(const Way& way, const bf16* x, int64_t rows, const Linear& layer) {
  Machine m(way.isa);
  std::vector<bf16> y(static_cast<size_t>(rows * layer.weight.outputs), bf16{0x7fff});
  const LinearCall call{x, rows, &layer, y.data(), DType::bf16};
  kernels::run_linear(m.ctx, {&call, 1}, way.may_use_dot);
  return y;
}

void expect_same_bits(const std::vector<float>& ours, const std::vector<float>& expected,
                      const std::string& what) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(ours[i]), std::bit_cast<uint32_t>(expected[i]))
        << what << " at " << i << ": " << ours[i] << " instead of " << expected[i];
  }
}

void expect_defined(Format format, int64_t rows, int64_t outputs, int64_t inputs, uint32_t seed) {
  OwnedLayer owned(format, outputs, inputs, seed);
  const std::vector<bf16> x = test::random_inputs(rows * inputs, seed + 1);
  const std::vector<float> expected = defined_product(widened(x), rows, owned.layer());
  for (const Way& way : ways()) {
    const std::string what =
        str_cat(name(way), " format ", static_cast<int>(format), " rows ", rows, " outputs ",
                outputs, " inputs ", inputs, " seed ", seed);
    expect_same_bits(run_f32(way, x.data(), rows, owned.layer()), expected, what);
    ASSERT_EQ(run_bf16(way, x.data(), rows, owned.layer()), rounded(expected)) << what;
  }
}

TEST(linear, every_level_follows_the_summation_order) {
  uint32_t seed = 1;
  for (const Format format : test::kFormats) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31}) {
      for (const int64_t outputs : {1, 15, 16, 17, 33, 80}) {
        for (const int64_t inputs : {1, 2, 3, 7, 8, 16, 31, 32, 33, 62, 96, 130, 144}) {
          if (inputs % input_unit(format) == 0) {
            expect_defined(format, rows, outputs, inputs, ++seed);
          }
        }
      }
    }
  }
}

TEST(linear, sizes_across_tile_borders) {
  uint32_t seed = 1000;
  for (const Format format : test::kFormats) {
    expect_defined(format, 1, 70, 1056, ++seed);
    expect_defined(format, 4, 30, 544, ++seed);
    expect_defined(format, 6, 290, 288, ++seed);
    expect_defined(format, 241, 18, 64, ++seed);
    expect_defined(format, 273, 34, 1024 + 32, ++seed);
  }
  // Rows so long that two or three panels, or only one, make a group.
  expect_defined(Format::fp8_block, 1, 112, 9056, ++seed);
  expect_defined(Format::fp8_block, 2, 112, 12000, ++seed);
  expect_defined(Format::mxfp4, 1, 112, 20480, ++seed);
  expect_defined(Format::f32, 1, 24, 20480, ++seed);
  expect_defined(Format::bf16, 3, 40, 588, ++seed);
  expect_defined(Format::bf16, 20, 40, 588, ++seed);
  expect_defined(Format::bf16, 20, 40, 1029, ++seed);
  expect_defined(Format::f32, 20, 24, 1001, ++seed);
}

// Of both FP8 formats, with every kind of plan: one row, some, many.
TEST(linear, fp8_blocks_of_128_and_ragged_blocks) {
  for (const Format format : {Format::fp8_block, Format::fp8_scaled}) {
    for (const int64_t inputs : {32, 100, 128, 300, 1111}) {
      OwnedLayer owned(format, 150, inputs, 7, 128);
      const std::vector<bf16> x = test::random_inputs(40 * inputs, 8);
      const std::vector<float> expected = defined_product(widened(x), 40, owned.layer());
      for (const Way& way : ways()) {
        for (const int64_t rows : {1, 9, 30, 40}) {
          expect_same_bits(run_f32(way, x.data(), rows, owned.layer()),
                           {expected.begin(), expected.begin() + rows * 150},
                           str_cat(name(way), " rows ", rows, " inputs ", inputs));
        }
      }
    }
  }
}

TEST(linear, fp8_scales_may_be_bf16) {
  OwnedLayer owned(Format::fp8_scaled, 100, 200, 9, 64);
  const std::vector<bf16> scales = test::random_inputs(2 * 4, 10);
  std::get<WeightFp8Scaled>(owned.layer().weight.format).scales =
      reinterpret_cast<const std::byte*>(scales.data());
  std::get<WeightFp8Scaled>(owned.layer().weight.format).scale_type = DType::bf16;
  const std::vector<bf16> x = test::random_inputs(3 * 200, 11);
  const std::vector<float> expected = defined_product(widened(x), 3, owned.layer());
  for (const Way& way : ways()) {
    expect_same_bits(run_f32(way, x.data(), 3, owned.layer()), expected, name(way));
  }
}

TEST(linear, small_integers_are_exact) {
  constexpr int64_t kInputs = 512, kOutputs = 19, kRows = 21;
  std::vector<bf16> w, x;
  for (int64_t i = 0; i < kInputs * kOutputs; ++i) {
    w.push_back(to_bf16(static_cast<float>(i * 7 % 17 - 8)));
  }
  for (int64_t i = 0; i < kInputs * kRows; ++i) {
    x.push_back(to_bf16(static_cast<float>(i * 5 % 31 - 15)));
  }
  Linear layer;
  layer.weight = {WeightBf16{reinterpret_cast<const std::byte*>(w.data())}, kOutputs, kInputs};
  for (const Way& way : ways()) {
    const std::vector<float> y = run_f32(way, x.data(), kRows, layer);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        int64_t sum = 0;
        for (int64_t k = 0; k < kInputs; ++k) {
          sum += ((r * kInputs + k) * 5 % 31 - 15) * ((o * kInputs + k) * 7 % 17 - 8);
        }
        ASSERT_EQ(y[static_cast<size_t>(r * kOutputs + o)], static_cast<float>(sum)) << name(way);
      }
    }
  }
}

// |y - exact| <= inputs * 2^-24 * sum |x w| (1 + small): the bound of recursive summation.
TEST(linear, stays_within_the_summation_bound_of_a_double_oracle) {
  for (const Format format : test::kFormats) {
    constexpr int64_t kRows = 5, kOutputs = 40, kInputs = 2048;
    OwnedLayer owned(format, kOutputs, kInputs, 77);
    const std::vector<bf16> x = test::random_inputs(kRows * kInputs, 78);
    std::vector<float> w(static_cast<size_t>(kOutputs * kInputs));
    dequantize_rows(owned.layer().weight, 0, kOutputs, w.data());
    const std::vector<float> y = run_f32({active_isa(), true}, x.data(), kRows, owned.layer());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < kInputs; ++k) {
          const double product =
              static_cast<double>(to_float(x[static_cast<size_t>(r * kInputs + k)])) *
              static_cast<double>(w[static_cast<size_t>(o * kInputs + k)]);
          sum += product;
          size += std::fabs(product);
        }
        const double bound = 1.001 * kInputs * 0x1p-24 * size;
        ASSERT_LE(std::fabs(static_cast<double>(y[static_cast<size_t>(r * kOutputs + o)]) - sum),
                  bound);
      }
    }
  }
}

// Huge, tiny and zero values: infinities, cancellation, flushed products and signs of zero.
TEST(linear, extreme_values_agree) {
  const uint16_t patterns[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x0100, 0x3f80,
                               0xbf80, 0x1f80, 0x9f80, 0x2000, 0x5f00, 0xdf00, 0x7f7f, 0xff7f};
  std::mt19937 random(5);
  for (const int64_t inputs : {3, 8, 33, 34}) {
    for (const int64_t rows : {1, 7}) {
      std::vector<bf16> x, w;
      for (int64_t i = 0; i < rows * inputs; ++i) {
        x.push_back({patterns[random() % 14]});
      }
      for (int64_t i = 0; i < 300 * inputs; ++i) {
        w.push_back({patterns[random() % 16]});
      }
      Linear layer;
      layer.weight = {WeightBf16{reinterpret_cast<const std::byte*>(w.data())}, 300, inputs};
      const std::vector<float> expected = defined_product(widened(x), rows, layer);
      for (const Way& way : ways()) {
        const std::vector<float> y = run_f32(way, x.data(), rows, layer);
        for (size_t i = 0; i < y.size(); ++i) {
          if (std::isnan(expected[i])) {
            ASSERT_TRUE(std::isnan(y[i])) << name(way);
          } else {
            ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected[i]))
                << name(way) << " inputs " << inputs << " at " << i;
          }
        }
      }
    }
  }
}

TEST(linear, bias_is_one_addition_before_the_rounding) {
  for (const int64_t outputs : {5, 16, 75}) {
    OwnedLayer owned(Format::bf16, outputs, 40, 11);
    owned.add_bias();
    const std::vector<bf16> x = test::random_inputs(18 * 40, 12);
    const std::vector<float> expected = defined_product(widened(x), 18, owned.layer());
    for (const Way& way : ways()) {
      expect_same_bits(run_f32(way, x.data(), 18, owned.layer()), expected, name(way));
      ASSERT_EQ(run_bf16(way, x.data(), 18, owned.layer()), rounded(expected)) << name(way);
    }
  }
}

TEST(linear, fp32_activations) {
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const int64_t rows : {1, 4, 5, 40}) {
      for (const int64_t inputs : {1, 33, 64, 300}) {
        OwnedLayer owned(format, 37, inputs, 21);
        std::vector<float> x;
        std::mt19937 random(22);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < rows * inputs; ++i) {
          x.push_back(normal(random));
        }
        const std::vector<float> expected = defined_product(x, rows, owned.layer());
        for (const IsaLevel isa : supported_isas()) {
          Machine m(isa);
          std::vector<float> y(expected.size());
          linear(m.ctx, x.data(), rows, owned.layer(), y.data());
          expect_same_bits(y, expected, std::string(isa_name(isa)));
        }
      }
    }
  }
}

TEST(linear, input_rule_quantises_the_row_first) {
  for (const int64_t rows : {1, 4, 6, 30}) {
    constexpr int64_t kInputs = 160;
    OwnedLayer owned(Format::fp8_block, 48, kInputs, 31);
    const std::vector<bf16> x = test::random_inputs(rows * kInputs, 32);
    Machine m;
    std::vector<bf16> quantised(x.size());
    quantize_dequantize_e4m3(m.ctx, x.data(), rows, kInputs, quantised.data());
    const std::vector<float> expected = defined_product(widened(quantised), rows, owned.layer());
    owned.layer().input = InputRule::e4m3_32;
    for (const Way& way : ways()) {
      expect_same_bits(run_f32(way, x.data(), rows, owned.layer()), expected, name(way));
    }
  }
}

// W4A4: x in E2M1 by the calibrated scale, both global scales on the sums, the bias behind them.
TEST(linear, calibrated_input_rule) {
  for (const int64_t rows : {1, 6, 40}) {
    constexpr int64_t kInputs = 176;
    OwnedLayer owned(Format::nvfp4, 50, kInputs, 33);
    owned.add_bias();
    owned.layer().input = InputRule::e2m1_16;
    owned.layer().input_scale = 0x1.9p-9f;
    const std::vector<bf16> x = test::random_inputs(rows * kInputs, 34);
    Machine m;
    std::vector<bf16> quantised(x.size());
    quantize_e2m1_calibrated(m.ctx, x.data(), rows, kInputs, 0x1.9p-9f, quantised.data());
    const std::vector<float> expected = defined_product(widened(quantised), rows, owned.layer());
    for (const Way& way : ways()) {
      expect_same_bits(run_f32(way, x.data(), rows, owned.layer()), expected, name(way));
      ASSERT_EQ(run_bf16(way, x.data(), rows, owned.layer()), rounded(expected)) << name(way);
    }
  }
}

// Two layers of one x with input scales of their own: each has its own quantised x.
TEST(linear, calibrated_layers_of_one_x) {
  constexpr int64_t kInputs = 64, kRows = 3;
  OwnedLayer first(Format::nvfp4, 20, kInputs, 35), second(Format::nvfp4, 20, kInputs, 36);
  const std::vector<bf16> x = test::random_inputs(kRows * kInputs, 37);
  float scale = 0x1p-8f;
  for (OwnedLayer* owned : {&first, &second}) {
    owned->layer().input = InputRule::e2m1_16;
    owned->layer().input_scale = scale;
    scale *= 3;
  }
  Machine m;
  std::vector<float> both[2] = {std::vector<float>(20 * kRows), std::vector<float>(20 * kRows)};
  const LinearCall calls[2] = {{x.data(), kRows, &first.layer(), both[0].data(), DType::f32},
                               {x.data(), kRows, &second.layer(), both[1].data(), DType::f32}};
  linear_many(m.ctx, calls);
  const Way way{active_isa(), true};
  expect_same_bits(both[0], run_f32(way, x.data(), kRows, first.layer()), "first");
  expect_same_bits(both[1], run_f32(way, x.data(), kRows, second.layer()), "second");
}

TEST(linear, rows_of_a_weight) {
  for (const Format format : test::kFormats) {
    OwnedLayer owned(format, 96, 64, 38);
    const Weight part = rows_of(owned.layer().weight, 32, 40);
    EXPECT_EQ(part.outputs, 40);
    std::vector<float> whole(96 * 64), rows(40 * 64);
    dequantize_rows(owned.layer().weight, 0, 96, whole.data());
    dequantize_rows(part, 0, 40, rows.data());
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), whole.begin() + 32 * 64)) << format_name(part);
    const auto [codes, scales] = weight_bytes(owned.layer().weight);
    EXPECT_EQ(codes.data(), owned.codes());
    EXPECT_TRUE(scales.empty() || scales.data() == owned.scales());
  }
}

TEST(linear, a_row_does_not_depend_on_its_neighbours_or_the_thread_count) {
  for (const Format format : test::kFormats) {
    constexpr int64_t kRows = 261, kInputs = 320, kOutputs = 100;
    OwnedLayer owned(format, kOutputs, kInputs, 41);
    const std::vector<bf16> x = test::random_inputs(kRows * kInputs, 42);
    const Way way{active_isa(), true};
    const std::vector<float> all = run_f32(way, x.data(), kRows, owned.layer());
    for (const int threads : {2, 3}) {
      expect_same_bits(run_f32(way, x.data(), kRows, owned.layer(), threads), all, "threads");
    }
    for (const int64_t step : {1, 4, 5, 64, 250}) {
      for (int64_t r = 0; r < kRows; r += step) {
        const int64_t rows = std::min(step, kRows - r);
        expect_same_bits(run_f32(way, x.data() + r * kInputs, rows, owned.layer(), 2),
                         {all.begin() + r * kOutputs, all.begin() + (r + rows) * kOutputs},
                         str_cat("rows from ", r));
      }
    }
  }
}

TEST(linear, many_equals_one_by_one) {
  constexpr int64_t kInputs = 96;
  Machine m(active_isa(), 2);
  std::vector<std::unique_ptr<OwnedLayer>> layers;
  std::vector<LinearCall> calls;
  std::vector<std::vector<bf16>> many;
  std::vector<std::vector<float>> many_f32;
  const std::vector<bf16> x = test::random_inputs(64 * kInputs, 51);
  many.reserve(20);
  many_f32.reserve(20);
  int64_t row = 0;
  for (uint32_t i = 0; i < 16; ++i) {
    const Format format = test::kFormats[i % std::size(test::kFormats)];
    layers.push_back(std::make_unique<OwnedLayer>(format, 10 + 13 * i, kInputs, 60 + i));
    layers.back()->layer().input = i % 3 == 0 ? InputRule::none : InputRule::e4m3_32;
    const int64_t rows = i == 7 ? 0 : 1 + i % 6;
    const bf16* from = i % 4 == 2 ? x.data() : x.data() + row * kInputs;
    many.emplace_back(static_cast<size_t>(rows * layers.back()->layer().weight.outputs));
    many_f32.emplace_back(many.back().size());
    void* y = many.back().data();
    if (i % 2 == 0) {
      y = many_f32.back().data();
    }
    calls.push_back(
        {from, rows, &layers.back()->layer(), y, i % 2 == 0 ? DType::f32 : DType::bf16});
    row += rows;
  }
  linear_many(m.ctx, calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].out == DType::f32) {
      std::vector<float> one(many_f32[i].size());
      linear(m.ctx, calls[i].x, calls[i].rows, *calls[i].layer, one.data());
      expect_same_bits(many_f32[i], one, str_cat("call ", i));
    } else {
      std::vector<bf16> one(many[i].size());
      linear(m.ctx, calls[i].x, calls[i].rows, *calls[i].layer, one.data());
      ASSERT_EQ(many[i], one) << i;
    }
  }
}

TEST(linear, a_repeated_call_takes_no_new_memory) {
  Machine m(active_isa(), 2);
  OwnedLayer owned(Format::mxfp4, 200, 512, 71);
  owned.layer().input = InputRule::e4m3_32;
  const std::vector<bf16> x = test::random_inputs(20 * 512, 72);
  std::vector<bf16> y(20 * 200);
  linear(m.ctx, x.data(), 20, owned.layer(), y.data());
  const int64_t capacity = m.scratch.capacity_bytes();
  linear(m.ctx, x.data(), 20, owned.layer(), y.data());
  EXPECT_EQ(m.scratch.capacity_bytes(), capacity);
}

TEST(linear, nothing_to_do) {
  Machine m;
  OwnedLayer owned(Format::bf16, 8, 8, 1);
  const bf16 x[8] = {};
  bf16 y[1] = {{0x1234}};
  linear(m.ctx, x, 0, owned.layer(), y);
  EXPECT_EQ(y[0].bits, 0x1234);
  linear_many(m.ctx, {});
}

}  // namespace
}  // namespace tessera
