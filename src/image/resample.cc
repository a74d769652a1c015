#include "image/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tessera::image {
namespace {

constexpr int kWeightBits = 22;  // 32 - 8 bits of a pixel - 2 bits for weights above 1
constexpr int32_t kHalf = int32_t{1} << (kWeightBits - 1);

double bilinear_weight(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double bicubic_weight(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) {
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  }
  if (x < 2.0) {
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  }
  return 0.0;
}

double sinc(double x) {
  if (x == 0.0) {
    return 1.0;
  }
  x = x * std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos_weight(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

struct FilterShape {
  double (*weight)(double);
  double support;  // source pixels at scale 1
};

FilterShape shape_of(Filter filter) {
  switch (filter) {
    case Filter::bilinear:
      return {bilinear_weight, 1.0};
    case Filter::bicubic:
      return {bicubic_weight, 2.0};
    case Filter::lanczos:
      return {lanczos_weight, 3.0};
  }
  TESSERA_UNREACHABLE();
}

uint8_t to_pixel(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// Sums stay within int32: windows always hold the nearest source pixels, so the absolute weights
// of an output add up to less than 1.6 (lanczos at an edge), and 1.6 * 2^22 * 255 < 2^31.
Image horizontal_pass(const Image& source, const ResampleTaps& taps) {
  Image out({taps.outputs(), source.height()});
  for (int64_t y = 0; y < source.height(); ++y) {
    const uint8_t* line = source.row(y);
    uint8_t* to = out.row(y);
    for (size_t x = 0; x < taps.first.size(); ++x) {
      const int32_t* weight = taps.weight.data() + taps.offset[x];
      const int64_t count = taps.offset[x + 1] - taps.offset[x];
      const uint8_t* from = line + int64_t{taps.first[x]} * Image::kChannels;
      int32_t r = kHalf;
      int32_t g = kHalf;
      int32_t b = kHalf;
      for (int64_t j = 0; j < count; ++j) {
        r += weight[j] * from[3 * j];
        g += weight[j] * from[3 * j + 1];
        b += weight[j] * from[3 * j + 2];
      }
      to[3 * x] = to_pixel(r);
      to[3 * x + 1] = to_pixel(g);
      to[3 * x + 2] = to_pixel(b);
    }
  }
  return out;
}

Image vertical_pass(const Image& source, const ResampleTaps& taps) {
  // Columns are independent: blocks of 1 KiB of source bytes keep the sums (4 KiB) in the L1 cache.
  constexpr int64_t kBlock = 1024;
  Image out({source.width(), taps.outputs()});
  int32_t sums[kBlock];
  for (size_t y = 0; y < taps.first.size(); ++y) {
    const int32_t* weight = taps.weight.data() + taps.offset[y];
    const int64_t count = taps.offset[y + 1] - taps.offset[y];
    uint8_t* to = out.row(static_cast<int64_t>(y));
    for (int64_t begin = 0; begin < source.row_bytes(); begin += kBlock) {
      const int64_t n = std::min(kBlock, source.row_bytes() - begin);
      std::fill_n(sums, n, kHalf);
      for (int64_t j = 0; j < count; ++j) {
        const uint8_t* from = source.row(taps.first[y] + j) + begin;
        const int32_t w = weight[j];
        for (int64_t i = 0; i < n; ++i) {
          sums[i] += w * from[i];
        }
      }
      for (int64_t i = 0; i < n; ++i) {
        to[begin + i] = to_pixel(sums[i]);
      }
    }
  }
  return out;
}

}  // namespace

ResampleTaps resample_taps(int64_t input, int64_t output, Filter filter) {
  TESSERA_CHECK(input >= 1 && input <= kMaxSide && output >= 1 && output <= kMaxSide);
  const FilterShape shape = shape_of(filter);
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double filter_scale = std::max(scale, 1.0);
  const double support = shape.support * filter_scale;
  const double inverse = 1.0 / filter_scale;
  ResampleTaps taps;
  taps.first.reserve(static_cast<size_t>(output));
  taps.offset.reserve(static_cast<size_t>(output) + 1);
  taps.offset.push_back(0);
  std::vector<double> k;
  for (int64_t i = 0; i < output; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(centre + support + 0.5), input);
    k.clear();
    double sum = 0.0;
    for (int64_t j = begin; j < end; ++j) {
      k.push_back(shape.weight((static_cast<double>(j) - centre + 0.5) * inverse));
      sum += k.back();
    }
    for (double& value : k) {
      if (sum != 0.0) {
        value /= sum;
      }
      const double scaled = value * static_cast<double>(1 << kWeightBits);
      taps.weight.push_back(static_cast<int32_t>(scaled + (value < 0.0 ? -0.5 : 0.5)));
    }
    taps.first.push_back(static_cast<int32_t>(begin));
    taps.offset.push_back(static_cast<int64_t>(taps.weight.size()));
  }
  return taps;
}

Image resize(const Image& source, Size size, Filter filter, PassOrder order) {
  TESSERA_CHECK(source.width() >= 1);
  check_size(size);
  const int64_t width_loss = source.width() - size.width;
  const int64_t height_loss = source.height() - size.height;
  if (width_loss == 0 && height_loss == 0) {
    return source.copy();
  }
  if (height_loss == 0) {
    return horizontal_pass(source, resample_taps(source.width(), size.width, filter));
  }
  if (width_loss == 0) {
    return vertical_pass(source, resample_taps(source.height(), size.height, filter));
  }
  const ResampleTaps across = resample_taps(source.width(), size.width, filter);
  const ResampleTaps down = resample_taps(source.height(), size.height, filter);
  if (order == PassOrder::pillow13 && height_loss > 0 && height_loss > 2 * width_loss) {
    return horizontal_pass(vertical_pass(source, down), across);
  }
  return vertical_pass(horizontal_pass(source, across), down);
}

}  // namespace tessera::image
