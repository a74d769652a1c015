#include "image/resample_taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tessera::image {
namespace {

constexpr int kPillowBits = 22;  // 32 - 8 bits of a pixel - 2 bits for weights above 1

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

// Calls use(first, weights) with the normalised weights of each output in turn.
template <typename Use>
void for_each_window(int64_t input, int64_t output, Filter filter, Use use) {
  TESSERA_CHECK(input >= 1 && input <= kMaxSide && output >= 1 && output <= kMaxSide);
  const FilterShape shape = shape_of(filter);
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double filter_scale = std::max(scale, 1.0);
  const double support = shape.support * filter_scale;
  const double inverse = 1.0 / filter_scale;
  std::vector<double> weights;
  for (int64_t i = 0; i < output; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(centre + support + 0.5), input);
    weights.clear();
    double sum = 0.0;
    for (int64_t j = begin; j < end; ++j) {
      weights.push_back(shape.weight((static_cast<double>(j) - centre + 0.5) * inverse));
      sum += weights.back();
    }
    if (sum != 0.0) {
      for (double& weight : weights) {
        weight /= sum;
      }
    }
    use(static_cast<int32_t>(begin), weights);
  }
}

ResampleTaps quantise(int64_t input, int64_t output, Filter filter, int bits) {
  ResampleTaps taps;
  taps.bits = bits;
  taps.first.reserve(static_cast<size_t>(output));
  taps.offset.reserve(static_cast<size_t>(output) + 1);
  taps.offset.push_back(0);
  const double one = static_cast<double>(1 << bits);
  for_each_window(input, output, filter, [&](int32_t first, const std::vector<double>& weights) {
    for (const double weight : weights) {
      taps.weight.push_back(static_cast<int32_t>(weight * one + (weight < 0.0 ? -0.5 : 0.5)));
    }
    taps.first.push_back(first);
    taps.offset.push_back(static_cast<int64_t>(taps.weight.size()));
  });
  return taps;
}

}  // namespace

// Sums stay within int32: windows always hold the nearest source pixels, so the absolute weights
// of an output add up to less than 1.6 (lanczos at an edge), and 1.6 * 2^22 * 255 < 2^31.
ResampleTaps resample_taps(int64_t input, int64_t output, Filter filter) {
  return quantise(input, output, filter, kPillowBits);
}

ResampleTaps torch_taps(int64_t input, int64_t output) {
  constexpr double kWeightLimit = 1 << 15;
  double largest = 0.0;
  for_each_window(input, output, Filter::bicubic, [&](int32_t, const std::vector<double>& weights) {
    largest = std::max(largest, *std::max_element(weights.begin(), weights.end()));
  });
  int bits = 0;
  while (bits < kPillowBits &&
         std::trunc(0.5 + largest * static_cast<double>(1 << (bits + 1))) < kWeightLimit) {
    ++bits;
  }
  return quantise(input, output, Filter::bicubic, bits);
}

}  // namespace tessera::image
