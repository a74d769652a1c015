// One row: the fused kernels, and the panels where these give up.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear/test_weights.h"
#include "ops/linear/variants.h"

namespace tessera {
namespace {

using test::Format;
using test::OwnedLayer;

std::vector<float> product(IsaLevel isa, int threads, const std::vector<bf16>& x,
                           const Linear& layer) {
  ThreadPool pool(threads);
  Arena scratch;
  ExecContext ctx{pool, scratch, isa, {}};
  std::vector<float> y(static_cast<size_t>(layer.weight.outputs), -1.0f);
  linear(ctx, x.data(), 1, layer, y.data());
  return y;
}

void expect_levels_agree(const std::vector<bf16>& x, const Linear& layer, const std::string& what) {
  const std::vector<float> expected = product(IsaLevel::reference, 1, x, layer);
  for (const IsaLevel isa : supported_isas()) {
    for (const int threads : {1, 3}) {
      const std::vector<float> y = product(isa, threads, x, layer);
      for (size_t i = 0; i < y.size(); ++i) {
        const bool is_same = std::isnan(expected[i]) ? std::isnan(y[i])
                                                     : std::bit_cast<uint32_t>(y[i]) ==
                                                           std::bit_cast<uint32_t>(expected[i]);
        ASSERT_TRUE(is_same) << what << " " << isa_name(isa) << " threads " << threads << " at "
                             << i << ": " << y[i] << " instead of " << expected[i];
      }
    }
  }
}

void fill(std::byte* to, int64_t count, const std::vector<int>& values, uint32_t seed) {
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::byte>(values[random() % values.size()]);
  }
}

// Widths around the blocks of 64 and 128 inputs, outputs around the groups of four tiles.
TEST(linear_one_row, levels_agree_at_every_edge) {
  uint32_t seed = 1;
  for (const Format format :
       {Format::fp8_block, Format::fp8_scaled, Format::mxfp4, Format::nvfp4}) {
    for (const int64_t outputs : {16, 31, 32, 48, 63, 64, 80, 128, 129, 400}) {
      for (const int64_t inputs : {32, 64, 96, 128, 160, 224, 256, 1056}) {
        OwnedLayer owned(format, outputs, inputs, ++seed);
        expect_levels_agree(test::random_inputs(inputs, ++seed), owned.layer(),
                            str_cat("outputs ", outputs, " inputs ", inputs));
      }
    }
    OwnedLayer many(format, 6000, 64, ++seed);  // many items
    expect_levels_agree(test::random_inputs(64, ++seed), many.layer(), "6000 outputs");
  }
  OwnedLayer tiles(Format::fp8_scaled, 400, 1056, ++seed, 128);  // a last tile of 32 inputs
  expect_levels_agree(test::random_inputs(1056, ++seed), tiles.layer(), "tiles of 128");
}

// Zeros, flushed values, infinities and NaN, in a few places and everywhere.
TEST(linear_one_row, levels_agree_with_rare_scales) {
  constexpr int64_t kOutputs = 80, kInputs = 288;
  const std::vector<std::vector<int>> kinds = {
      {0, 1, 2, 3},  {0, 8, 100, 127},      {120, 246},           {246, 247},
      {127, 254},    {0, 127, 246, 255},    {1, 9, 12, 127, 130}, {120, 120, 120, 120, 120, 250},
      {60, 61, 200}, {0, 1, 120, 253, 254},
  };
  uint32_t seed = 100;
  for (const Format format : {Format::fp8_block, Format::mxfp4, Format::nvfp4}) {
    const int64_t scales = format == Format::fp8_block
                               ? 3 * (kInputs / 32)
                               : kOutputs * kInputs / (format == Format::mxfp4 ? 32 : 16);
    for (const std::vector<int>& kind : kinds) {
      OwnedLayer owned(format, kOutputs, kInputs, ++seed);
      fill(owned.scales(), scales, kind, ++seed);
      std::vector<bf16> x = test::random_inputs(kInputs, ++seed);
      const std::string what = str_cat("first scale ", kind.front(), " last ", kind.back());
      expect_levels_agree(x, owned.layer(), what);
      for (size_t i = 0; i < x.size(); i += 3) {  // tiny, subnormal, large, zeros of both signs
        constexpr uint16_t kBits[] = {0x0080, 0x8001, 0x7e80, 0x0000, 0x8000, 0x1f80};
        x[i] = {kBits[i / 3 % 6]};
      }
      expect_levels_agree(x, owned.layer(), what);
      expect_levels_agree(std::vector<bf16>(kInputs, bf16{0x8000}), owned.layer(), what);
    }
  }
}

TEST(linear_one_row, levels_agree_with_nan_codes) {
  constexpr int64_t kOutputs = 128, kInputs = 192;
  for (const Format format : {Format::fp8_block, Format::fp8_scaled}) {
    OwnedLayer owned(format, kOutputs, kInputs, 7);
    const std::vector<bf16> x = test::random_inputs(kInputs, 8);
    owned.codes()[70 * kInputs + 191] = std::byte{0xff};
    expect_levels_agree(x, owned.layer(), "one NaN");
    owned.codes()[0] = std::byte{0x7f};
    expect_levels_agree(x, owned.layer(), "two NaN");
    EXPECT_TRUE(std::isnan(product(active_isa(), 1, x, owned.layer())[70]));
  }
}

}  // namespace
}  // namespace tessera
