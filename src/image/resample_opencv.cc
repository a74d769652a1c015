#include "image/resample_opencv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::image {
namespace {

uint8_t to_pixel(int64_t level) { return static_cast<uint8_t>(std::clamp<int64_t>(level, 0, 255)); }

// Round to nearest, ties to even.
uint8_t to_pixel(float level) { return to_pixel(static_cast<int64_t>(std::lrintf(level))); }

// Source pixels per pixel of the result, as cv::resize computes it.
double scale_of(int64_t input, int64_t output) {
  return 1.0 / (static_cast<double>(output) / static_cast<double>(input));
}

// --- INTER_CUBIC -----------------------------------------------------------------------------

constexpr int kCubicBits = 11;
constexpr int32_t kCubicOne = 1 << kCubicBits;
constexpr size_t kTaps = 4;

struct CubicTaps {
  std::array<int64_t, kTaps> source;  // clamped into the picture
  std::array<int32_t, kTaps> weight;  // 11 fractional bits
};

std::vector<CubicTaps> cubic_taps(int64_t input, int64_t output) {
  constexpr float a = -0.75f;
  const double scale = scale_of(input, output);
  std::vector<CubicTaps> taps(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float at = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    const int64_t nearest = static_cast<int64_t>(std::floor(at));
    const float x = at - static_cast<float>(nearest);
    const float y = 1.0f - x;
    std::array<float, kTaps> weight;
    weight[0] = ((a * (x + 1.0f) - 5.0f * a) * (x + 1.0f) + 8.0f * a) * (x + 1.0f) - 4.0f * a;
    weight[1] = ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    weight[2] = ((a + 2.0f) * y - (a + 3.0f)) * y * y + 1.0f;
    weight[3] = 1.0f - weight[0] - weight[1] - weight[2];
    CubicTaps& to = taps[static_cast<size_t>(i)];
    for (size_t k = 0; k < kTaps; ++k) {
      to.source[k] = std::clamp<int64_t>(nearest - 1 + static_cast<int64_t>(k), 0, input - 1);
      to.weight[k] = static_cast<int32_t>(std::lrintf(weight[k] * float{kCubicOne}));
    }
  }
  return taps;
}

// Rows after the horizontal pass: exact sums with 11 fractional bits. The four that a row of the
// result needs are kept.
class CubicRows {
 public:
  CubicRows(const Image& source, int64_t width)
      : source_(source), taps_(cubic_taps(source.width(), width)) {
    for (Row& row : rows_) {
      row.sums.resize(static_cast<size_t>(width * Image::kChannels));
    }
  }

  // A row stays until kTaps rows whose numbers differ from it modulo kTaps or are equal are asked
  // for: neighbouring rows never evict each other.
  const int32_t* row(int64_t y) {
    Row& row = rows_[static_cast<size_t>(y) % kTaps];
    if (row.y != y) {
      row.y = y;
      fill(y, row.sums.data());
    }
    return row.sums.data();
  }

 private:
  struct Row {
    int64_t y = -1;
    std::vector<int32_t> sums;  // [width, 3]
  };

  void fill(int64_t y, int32_t* to) const {
    const uint8_t* line = source_.row(y);
    for (const CubicTaps& taps : taps_) {
      for (int64_t c = 0; c < Image::kChannels; ++c, ++to) {
        *to = 0;
        for (size_t k = 0; k < kTaps; ++k) {
          *to += taps.weight[k] * line[taps.source[k] * Image::kChannels + c];
        }
      }
    }
  }

  const Image& source_;
  std::vector<CubicTaps> taps_;
  std::array<Row, kTaps> rows_;
};

// OpenCV takes eight samples at a time in float32, and what is left of a row in integers.
void cubic_down(const std::array<const int32_t*, kTaps>& rows, const CubicTaps& taps, int64_t n,
                uint8_t* to) {
  constexpr int64_t kLanes = 8;
  constexpr float kUnit = 1.0f / (float{kCubicOne} * float{kCubicOne});
  std::array<float, kTaps> weight;
  for (size_t k = 0; k < kTaps; ++k) {
    weight[k] = static_cast<float>(taps.weight[k]) * kUnit;
  }
  int64_t i = 0;
  for (; i < n - n % kLanes; ++i) {
    float sum = static_cast<float>(rows[3][i]) * weight[3];
    sum = static_cast<float>(rows[2][i]) * weight[2] + sum;
    sum = static_cast<float>(rows[1][i]) * weight[1] + sum;
    sum = static_cast<float>(rows[0][i]) * weight[0] + sum;
    to[i] = to_pixel(sum);
  }
  for (; i < n; ++i) {
    int64_t sum = int64_t{1} << (2 * kCubicBits - 1);
    for (size_t k = 0; k < kTaps; ++k) {
      sum += int64_t{rows[k][i]} * taps.weight[k];
    }
    to[i] = to_pixel(sum >> (2 * kCubicBits));
  }
}

// --- INTER_AREA ------------------------------------------------------------------------------

// Which share of a source sample goes into which sample of the result.
struct AreaShare {
  int64_t source;
  int64_t output;
  float share;
};

// In the order of the result; shares of one output add up to about 1.
std::vector<AreaShare> area_shares(int64_t input, int64_t output) {
  constexpr double kLeast = 1e-3;  // smaller pieces of a sample are left out
  const double scale = scale_of(input, output);
  std::vector<AreaShare> shares;
  for (int64_t i = 0; i < output; ++i) {
    const double begin = static_cast<double>(i) * scale;
    const double end = begin + scale;
    const double cell = std::min(scale, static_cast<double>(input) - begin);
    const int64_t last = std::min(static_cast<int64_t>(std::floor(end)), input - 1);
    const int64_t first = std::min(static_cast<int64_t>(std::ceil(begin)), last);
    if (static_cast<double>(first) - begin > kLeast) {
      shares.push_back(
          {first - 1, i, static_cast<float>((static_cast<double>(first) - begin) / cell)});
    }
    for (int64_t j = first; j < last; ++j) {
      shares.push_back({j, i, static_cast<float>(1.0 / cell)});
    }
    const double rest = end - static_cast<double>(last);
    if (rest > kLeast) {
      shares.push_back({last, i, static_cast<float>(std::min(std::min(rest, 1.0), cell) / cell)});
    }
  }
  return shares;
}

Image shrink_by_shares(const Image& source, Size size) {
  const std::vector<AreaShare> across = area_shares(source.width(), size.width);
  const std::vector<AreaShare> down = area_shares(source.height(), size.height);
  Image out(size);
  const size_t samples = static_cast<size_t>(out.row_bytes());
  std::vector<float> line(samples);
  std::vector<float> sums(samples);
  for (size_t d = 0; d < down.size(); ++d) {
    std::fill(line.begin(), line.end(), 0.0f);
    const uint8_t* from = source.row(down[d].source);
    for (const AreaShare& share : across) {
      float* to = line.data() + share.output * Image::kChannels;
      for (int64_t c = 0; c < Image::kChannels; ++c) {
        to[c] = to[c] + static_cast<float>(from[share.source * Image::kChannels + c]) * share.share;
      }
    }
    const bool is_first = d == 0 || down[d - 1].output != down[d].output;
    for (size_t i = 0; i < samples; ++i) {
      sums[i] = is_first ? down[d].share * line[i] : sums[i] + down[d].share * line[i];
    }
    if (d + 1 == down.size() || down[d + 1].output != down[d].output) {
      uint8_t* to = out.row(down[d].output);
      for (size_t i = 0; i < samples; ++i) {
        to[i] = to_pixel(sums[i]);
      }
    }
  }
  return out;
}

// The whole number of source samples per sample of the result, or 0. A quotient that division
// leaves beside the whole number (49 is the first) does not count, as in OpenCV.
int64_t block_side(int64_t input, int64_t output) {
  const double scale = scale_of(input, output);
  const double whole = std::nearbyint(scale);
  const bool is_whole = std::fabs(scale - whole) < std::numeric_limits<double>::epsilon();
  return is_whole ? static_cast<int64_t>(whole) : 0;
}

// Whole blocks of source pixels: integer sums.
Image shrink_by_blocks(const Image& source, Size size, int64_t block_width, int64_t block_height) {
  const bool is_quarter = block_width == 2 && block_height == 2;
  const float unit = 1.0f / static_cast<float>(block_width * block_height);
  Image out(size);
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* to = out.row(y);
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < Image::kChannels; ++c, ++to) {
        int64_t sum = 0;
        for (int64_t line = 0; line < block_height; ++line) {
          const uint8_t* from =
              source.row(y * block_height + line) + x * block_width * Image::kChannels + c;
          for (int64_t column = 0; column < block_width; ++column) {
            sum += from[column * Image::kChannels];
          }
        }
        *to = is_quarter ? to_pixel((sum + 2) >> 2) : to_pixel(static_cast<float>(sum) * unit);
      }
    }
  }
  return out;
}

}  // namespace

Image resize_opencv_cubic(const Image& source, Size size) {
  TESSERA_CHECK(source.width() >= 1);
  check_size(size);
  Image out(size);
  CubicRows rows(source, size.width);
  const std::vector<CubicTaps> down = cubic_taps(source.height(), size.height);
  for (int64_t y = 0; y < size.height; ++y) {
    const CubicTaps& taps = down[static_cast<size_t>(y)];
    std::array<const int32_t*, kTaps> lines;
    for (size_t k = 0; k < kTaps; ++k) {
      lines[k] = rows.row(taps.source[k]);
    }
    cubic_down(lines, taps, out.row_bytes(), out.row(y));
  }
  return out;
}

Image shrink_opencv_area(const Image& source, Size size) {
  TESSERA_CHECK(source.width() >= 1);
  check_size(size);
  if (size.width > source.width() || size.height > source.height()) {
    throw Error(ErrorCode::bad_request,
                str_cat("a picture of ", source.width(), " x ", source.height(),
                        " pixels cannot be shrunk to ", size.width, " x ", size.height,
                        "; use a size no side of which is larger"));
  }
  if (size == source.size()) {
    return source.copy();
  }
  const int64_t block_width = block_side(source.width(), size.width);
  const int64_t block_height = block_side(source.height(), size.height);
  if (block_width > 0 && block_height > 0) {
    return shrink_by_blocks(source, size, block_width, block_height);
  }
  return shrink_by_shares(source, size);
}

}  // namespace tessera::image
