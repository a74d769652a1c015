// Every level gives the bits of the reference, whatever the sizes, windows and weights.
#include "image/resample_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/str_cat.h"

namespace tessera::image {
namespace {

Image noise(Size size, std::mt19937& random, bool is_hard) {
  Image out(size);
  for (int64_t i = 0; i < out.row_bytes() * out.height(); ++i) {
    const uint64_t bits = random();
    out.pixels()[i] = static_cast<uint8_t>(is_hard ? (bits & 1U) * 255U : bits & 255U);
  }
  return out;
}

bool is_equal(const Image& a, const Image& b) {
  return a.size() == b.size() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

void expect_equal_levels(const Image& source, const ResamplePasses& passes,
                         const std::string& what) {
  const Image want = run_passes(source, passes, resample_kernels(IsaLevel::reference));
  for (const IsaLevel level : supported_isas()) {
    EXPECT_TRUE(is_equal(run_passes(source, passes, resample_kernels(level)), want))
        << what << " " << isa_name(level);
  }
}

// Windows of `count` samples that move by one, the last of which ends at the last sample.
ResampleTaps moving_taps(int64_t outputs, int64_t count, int bits, std::mt19937& random) {
  ResampleTaps taps;
  taps.bits = bits;
  taps.offset.push_back(0);
  // As large as sums of absolute weights get; signs and sizes vary.
  const int64_t share = (int64_t{3} << bits) / 2 / count;
  std::uniform_int_distribution<int64_t> weight(-share, share);
  for (int64_t i = 0; i < outputs; ++i) {
    taps.first.push_back(static_cast<int32_t>(i));
    for (int64_t j = 0; j < count; ++j) {
      taps.weight.push_back(static_cast<int32_t>(weight(random)));
    }
    taps.weight.back() = static_cast<int32_t>(share);
    taps.offset.push_back(static_cast<int64_t>(taps.weight.size()));
  }
  return taps;
}

TEST(ResamplePasses, EveryNumberOfTaps) {
  std::mt19937 random(1);
  for (int64_t count = 1; count <= 200; ++count) {
    for (const int bits : {13, 15, 22}) {
      const int64_t outputs = 1 + count % 5;
      const ResampleTaps taps = moving_taps(outputs, count, bits, random);
      const std::string what = str_cat(count, " taps, ", bits, " bits");
      const int64_t input = outputs + count - 1;
      const Image source = noise({input, input}, random, count % 2 == 0);
      expect_equal_levels(source, {.across = &taps, .down = nullptr}, what + ", across");
      expect_equal_levels(source, {.across = nullptr, .down = &taps}, what + ", down");
      expect_equal_levels(source, {.across = &taps, .down = &taps}, what + ", both");
    }
  }
}

TEST(ResamplePasses, EverySize) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int64_t> small(1, 40);
  std::uniform_int_distribution<int64_t> large(1, 700);
  for (int round = 0; round < 400; ++round) {
    const auto side = [&] {
      const uint64_t kind = random() % 8;
      return kind == 0 ? 1 : kind == 1 ? large(random) : small(random);
    };
    const Size from{side(), side()};
    const Size to{side(), side()};
    const Image source = noise(from, random, round % 2 == 0);
    const bool is_torch = round % 3 == 0;
    const Filter filter = round % 3 == 1 ? Filter::bicubic : Filter::lanczos;
    const auto taps = [&](int64_t input, int64_t output) {
      return is_torch ? torch_taps(input, output) : resample_taps(input, output, filter);
    };
    const ResampleTaps across = taps(from.width, to.width);
    const ResampleTaps down = taps(from.height, to.height);
    const std::string what = str_cat("round ", round, ": ", from.width, " x ", from.height, " to ",
                                     to.width, " x ", to.height);
    for (const bool is_down_first : {false, true}) {
      expect_equal_levels(source,
                          {.across = &across, .down = &down, .is_down_first = is_down_first}, what);
    }
    expect_equal_levels(source, {.across = &across}, what + ", across");
    expect_equal_levels(source, {.down = &down}, what + ", down");
  }
}

// Every width around the block sizes of all levels, with windows that need every row.
TEST(ResamplePasses, EveryRowLength) {
  std::mt19937 random(3);
  const ResampleTaps down = resample_taps(37, 9, Filter::bicubic);
  for (int64_t width = 1; width <= 90; ++width) {
    const Image source = noise({width, 37}, random, false);
    const ResampleTaps across = resample_taps(width, (width * 5 + 6) / 7, Filter::bicubic);
    const std::string what = str_cat("width ", width);
    expect_equal_levels(source, {.down = &down}, what);
    expect_equal_levels(source, {.across = &across, .down = &down}, what);
    expect_equal_levels(source, {.across = &across, .down = &down, .is_down_first = true}, what);
  }
}

// Passes one after the other over whole pictures give what the interleaved ones give.
TEST(ResamplePasses, RowsBetweenPassesAreThoseOfWholePasses) {
  std::mt19937 random(4);
  const ResampleKernels& kernels = resample_kernels(active_isa());
  for (const auto& [input, output] : {std::pair<int64_t, int64_t>{500, 3}, {500, 77}, {9, 100}}) {
    const Image source = noise({61, input}, random, true);
    const ResampleTaps across = resample_taps(61, 20, Filter::bicubic);
    const ResampleTaps down = resample_taps(input, output, Filter::bicubic);
    const Image across_first =
        run_passes(run_passes(source, {.across = &across}, kernels), {.down = &down}, kernels);
    const Image down_first =
        run_passes(run_passes(source, {.down = &down}, kernels), {.across = &across}, kernels);
    EXPECT_TRUE(
        is_equal(run_passes(source, {.across = &across, .down = &down}, kernels), across_first));
    EXPECT_TRUE(is_equal(
        run_passes(source, {.across = &across, .down = &down, .is_down_first = true}, kernels),
        down_first));
    EXPECT_FALSE(is_equal(across_first, down_first));
  }
}

}  // namespace
}  // namespace tessera::image
