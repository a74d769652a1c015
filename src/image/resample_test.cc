// Pillow's resampler, bit for bit. Golden vectors: tests/golden/image/README.md.
#include "image/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "image/resample_taps.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/support/json_lines.h"

namespace tessera::image {
namespace {

Image from_tensor(const TensorView& view) {
  Image out({view.shape[1], view.shape[0]});
  std::memcpy(out.pixels(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

Filter filter_of(const std::string& name) {
  return name == "bilinear"  ? Filter::bilinear
         : name == "lanczos" ? Filter::lanczos
                             : Filter::bicubic;
}

// "" or the first pixel that differs.
std::string first_difference(const Image& got, const Image& want) {
  if (got.size() != want.size()) {
    return str_cat("size ", got.width(), " x ", got.height());
  }
  for (int64_t i = 0; i < got.row_bytes() * got.height(); ++i) {
    if (got.pixels()[i] != want.pixels()[i]) {
      return str_cat("x ", i % got.row_bytes() / 3, ", y ", i / got.row_bytes(), ", channel ",
                     i % 3, ": ", int{got.pixels()[i]}, ", expected ", int{want.pixels()[i]});
    }
  }
  return "";
}

Image grey_row(std::initializer_list<int> levels) {
  Image out({static_cast<int64_t>(levels.size()), 1});
  uint8_t* to = out.row(0);
  for (const int level : levels) {
    to = std::fill_n(to, 3, static_cast<uint8_t>(level));
  }
  return out;
}

TEST(Resample, EqualsPillowOnEveryGoldenVector) {
  const io::SafetensorsFile data(test::golden_path("image/resize.safetensors"));
  const io::Json index = io::read_json_file(test::golden_path("image/resize.json"));
  int vectors = 0;
  int old_orders = 0;
  for (const io::Json& row : index.items()) {
    const std::string name = test::text_of(row, "name");
    const std::vector<int64_t> size = test::integers_of(row, "dst");
    const Filter filter = filter_of(test::text_of(row, "filter"));
    const Image source = from_tensor(data.view(*data.find(name + ".src")));
    const Image want = from_tensor(data.view(*data.find(name + ".dst")));
    const Image got = resize(source, {size[0], size[1]}, filter);
    EXPECT_EQ(first_difference(got, want), "") << name;
    ++vectors;
    const io::TensorEntry* old = data.find(name + ".dst_pillow12");
    const Image want_old = old == nullptr ? want.copy() : from_tensor(data.view(*old));
    const Image got_old = resize(source, {size[0], size[1]}, filter, PassOrder::pillow12);
    EXPECT_EQ(first_difference(got_old, want_old), "") << name << " in the order of Pillow 12";
    old_orders += old != nullptr ? 1 : 0;
  }
  EXPECT_EQ(vectors, 52);
  EXPECT_EQ(old_orders, 15);
}

// Worked rows of the specification, section 2.4.
TEST(Resample, WorkedRows) {
  const ResampleTaps half = resample_taps(4, 2, Filter::bicubic);
  EXPECT_EQ(half.weight, (std::vector<int32_t>{1923834, 1923834, 502623, -155987, -155987, 502623,
                                               1923834, 1923834}));
  EXPECT_EQ(first_difference(resize(grey_row({10, 20, 200, 250}), {2, 1}), grey_row({28, 208})),
            "");
  const ResampleTaps twice = resample_taps(2, 4, Filter::bicubic);
  ASSERT_GE(twice.weight.size(), 4U);
  EXPECT_EQ(std::vector<int32_t>(twice.weight.begin(), twice.weight.begin() + 4),
            (std::vector<int32_t>{4564390, -370086, 3325484, 868820}));
  EXPECT_EQ(first_difference(resize(grey_row({10, 250}), {4, 1}), grey_row({0, 60, 200, 255})), "");
}

// The bound that keeps the 32-bit sums of both passes from overflowing.
TEST(Resample, WeightsNeverOverflowASum) {
  for (const Filter filter : {Filter::bilinear, Filter::bicubic, Filter::lanczos}) {
    int64_t largest = 0;
    for (int64_t input = 1; input <= 96; ++input) {
      for (int64_t output = 1; output <= 96; ++output) {
        const ResampleTaps taps = resample_taps(input, output, filter);
        for (size_t i = 0; i < taps.first.size(); ++i) {
          int64_t sum = 0;
          for (int64_t j = taps.offset[i]; j < taps.offset[i + 1]; ++j) {
            sum += std::abs(int64_t{taps.weight[static_cast<size_t>(j)]});
          }
          largest = std::max(largest, sum);
          ASSERT_GE(taps.first[i], 0);
          ASSERT_LE(taps.first[i] + taps.offset[i + 1] - taps.offset[i], input);
          ASSERT_GT(taps.offset[i + 1], taps.offset[i]);
        }
      }
    }
    EXPECT_LT(largest * 255 + (1 << 21), std::numeric_limits<int32_t>::max());
  }
}

// Qwen3-VL specification, section 2.3: a row and a picture in torchvision's 16-bit arithmetic.
TEST(Resample, TorchRows) {
  const Image row = grey_row({0, 255, 30, 200, 100, 10, 250, 60});
  EXPECT_EQ(first_difference(resample(row, {5, 1}, Resampler::torch_uint8),
                             grey_row({104, 125, 137, 86, 142})),
            "");
  EXPECT_EQ(torch_taps(8, 5).bits, 15);
  EXPECT_EQ(torch_taps(8, 12).bits, 14);
  EXPECT_EQ(first_difference(resample(row, {12, 1}, Resampler::torch_uint8),
                             grey_row({0, 133, 241, 50, 107, 199, 119, 34, 36, 231, 164, 47})),
            "");
  EXPECT_EQ(first_difference(resample(row, {12, 1}, Resampler::pillow13),
                             grey_row({0, 133, 241, 50, 107, 199, 119, 34, 36, 231, 164, 48})),
            "");
}

TEST(Resample, OneOfEachKind) {
  Image source({60, 48});
  for (int64_t y = 0; y < 48; ++y) {
    for (int64_t x = 0; x < 60; ++x) {
      source.row(y)[3 * x] = static_cast<uint8_t>(37 * x + 11 * y);
      source.row(y)[3 * x + 1] = static_cast<uint8_t>(5 * x + 91 * y + 17);
      source.row(y)[3 * x + 2] = static_cast<uint8_t>(x * x + 3 * y * y);
    }
  }
  const struct {
    Resampler resampler;
    int64_t sum;
    Rgb corner;
    Rgb inner;  // x 7, y 5
    Rgb last;
  } cases[] = {
      {Resampler::torch_uint8, 783755, {3, 45, 0}, {72, 68, 221}, {138, 209, 118}},
      {Resampler::pillow12, 783735, {3, 45, 0}, {72, 68, 221}, {138, 209, 118}},
      {Resampler::pillow13, 783710, {2, 45, 0}, {71, 68, 220}, {138, 209, 117}},
  };
  for (const auto& c : cases) {
    const Image got = resample(source, {64, 32}, c.resampler);
    const auto pixel = [&got](int64_t x, int64_t y) {
      const uint8_t* p = got.row(y) + 3 * x;
      return Rgb{p[0], p[1], p[2]};
    };
    EXPECT_EQ(std::accumulate(got.pixels(), got.pixels() + got.bytes().size(), int64_t{0}), c.sum);
    EXPECT_EQ(pixel(0, 0), c.corner);
    EXPECT_EQ(pixel(7, 5), c.inner);
    EXPECT_EQ(pixel(63, 31), c.last);
  }
}

TEST(Resample, FlatPicturesStayFlat) {
  for (const int level : {0, 1, 127, 254, 255}) {
    const auto l = static_cast<uint8_t>(level);
    const Image source({31, 17}, {l, l, l});
    for (const Size size : {Size{7, 5}, Size{64, 3}, Size{5, 90}, Size{31, 40}}) {
      EXPECT_EQ(first_difference(resize(source, size), Image(size, {l, l, l})), "") << level;
    }
  }
}

TEST(Resample, SameSizeIsACopy) {
  const Image source = grey_row({3, 1, 4, 1, 5});
  EXPECT_EQ(first_difference(resize(source, source.size()), source), "");
}

TEST(Resample, RefusesImpossibleSizes) {
  const Image source = grey_row({1, 2});
  for (const Size size :
       {Size{0, 1}, Size{1, 0}, Size{-3, 5}, Size{kMaxSide + 1, 1}, Size{kMaxSide, kMaxSide}}) {
    EXPECT_THROW(resize(source, size), Error);
  }
  EXPECT_THROW(Image({0, 0}), Error);
  EXPECT_THROW(Image({int64_t{1} << 62, 4}), Error);
}

}  // namespace
}  // namespace tessera::image
