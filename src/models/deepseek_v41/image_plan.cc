#include "models/deepseek_v41/image_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "image/geometry.h"
#include "image/patchify.h"
#include "image/resample.h"
#include "image/resample_opencv.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr image::Rgb kPadding{127, 127, 127};
constexpr int64_t kLowDetailSide = 512;
constexpr int64_t kWebpSide = 16383;  // no file of the recipe's last step can be larger
constexpr int kMostRounds = 40;       // of a repeated plan; 9 is the most any size was seen to take

// Python numbers of the reference: a width is an int, or a float once max_wh_ratio cut it. Both fit
// a double exactly.
struct Sides {
  double width;
  double height;
};

int64_t span_tokens(Grid tokens) { return tokens.rows * (tokens.columns + 1) + 2; }

Grid token_grid(image::Size canvas, const ImageLimits& c) {
  return {.rows = ceil_div(canvas.height / c.patch, c.downsample),
          .columns = ceil_div(canvas.width / c.patch, c.downsample)};
}

int64_t ceil_to_patch(double side, const ImageLimits& c) {
  return static_cast<int64_t>(std::ceil(side / static_cast<double>(c.patch))) * c.patch;
}

// floor(side * beta / p) * p: multiply, divide, floor.
int64_t floor_to_patch(double side, double beta, const ImageLimits& c) {
  return static_cast<int64_t>(std::floor((side * beta) / static_cast<double>(c.patch))) * c.patch;
}

// The largest canvas with about this aspect ratio whose span fits the budget.
image::Size solve(Sides s, const ImageLimits& c) {
  const double cell = static_cast<double>(c.patch * c.downsample);
  const double ratio = s.height / s.width;
  // rows * (columns + 1) + 2 = max_tokens with rows = ratio * columns
  const double columns = std::sqrt(static_cast<double>(c.max_tokens - 2) / ratio + 0.25) - 0.5;
  const double rows = columns * ratio;
  const int64_t cell_px = c.patch * c.downsample;
  if (columns < 1.0) {
    return {.width = cell_px, .height = (c.max_tokens - 2) / 2 * cell_px};
  }
  if (rows < 1.0) {
    return {.width = (c.max_tokens - 3) * cell_px, .height = cell_px};
  }
  const double beta =
      std::min((std::floor(columns) * cell) / s.width, (std::floor(rows) * cell) / s.height);
  return {.width = floor_to_patch(s.width, beta, c), .height = floor_to_patch(s.height, beta, c)};
}

std::string size_text(image::Size size) { return str_cat(size.width, " x ", size.height); }

[[noreturn]] void refuse_vanished_content(const ImagePlan& plan) {
  const bool is_narrow = plan.content.width == 0;
  const int64_t long_side = is_narrow ? plan.canvas.size.height : plan.canvas.size.width;
  throw Error(ErrorCode::bad_request,
              str_cat("a picture of ", size_text(plan.source), " pixels is too ",
                      is_narrow ? "narrow" : "flat", ": fitted into its canvas of ",
                      size_text(plan.canvas.size), " pixels its ", is_narrow ? "width" : "height",
                      " rounds to 0 and the model would see only grey; crop it until the long side "
                      "is less than ",
                      2 * long_side, " times the short side"));
}

// `side` times to / from, rounded, at least 1.
int64_t scaled_side(int64_t side, int64_t to, int64_t from) {
  return std::max<int64_t>(
      1, image::round_half_even(static_cast<double>(side * to) / static_cast<double>(from)));
}

image::Size low_detail_size(image::Size size) {
  const int64_t longer = std::max(size.width, size.height);
  if (longer <= kLowDetailSide) {
    return size;
  }
  return {.width = scaled_side(size.width, kLowDetailSide, longer),
          .height = scaled_side(size.height, kLowDetailSide, longer)};
}

// The largest canvas that a WebP file can hold, with about this aspect ratio.
image::Size webp_size(image::Size canvas, const ImageLimits& c) {
  const int64_t longer = kWebpSide / c.patch * c.patch;
  const auto shorter = [&](int64_t side, int64_t from) {
    return ceil_to_patch(static_cast<double>(scaled_side(side, longer, from)), c);
  };
  return canvas.width >= canvas.height
             ? image::Size{.width = longer, .height = shorter(canvas.height, canvas.width)}
             : image::Size{.width = shorter(canvas.width, canvas.height), .height = longer};
}

// Plans the canvas of a canvas until it stays the same and fits a WebP file.
CanvasPlan plan_repeatedly(image::Size source, const ImageLimits& limits) {
  image::Size size = source;
  for (int round = 0; round < kMostRounds; ++round) {
    const CanvasPlan plan = plan_canvas(size, limits);
    if (plan.size != size) {
      size = plan.size;
    } else if (std::max(size.width, size.height) > kWebpSide) {
      size = webp_size(size, limits);
    } else {
      return plan;
    }
  }
  throw Error(ErrorCode::bad_request,
              str_cat("a picture of ", size_text(source),
                      " pixels: its repeated plan found no end in ", kMostRounds, " rounds, last ",
                      size_text(size), "; crop the picture closer to a square"));
}

}  // namespace

void validate(const ImageLimits& limits, std::string_view where) {
  const auto require = [&where](bool is_fine, const char* key, const auto& found,
                                const char* expected) {
    if (!is_fine) {
      throw Error(ErrorCode::bad_file, str_cat(where, ": ", key, " is ", found, ", expected ",
                                               expected, "; wrong config.json?"));
    }
  };
  require(limits.patch >= 1 && limits.patch <= 1024, "patch_size", limits.patch, "1 to 1024");
  require(limits.downsample >= 1 && limits.downsample <= 64, "downsample_ratio", limits.downsample,
          "1 to 64");
  // 4 tokens: START, IMAGE, NEW_LINE, END. The upper bound keeps a canvas side below kMaxSide for
  // the released cell of 42 pixels.
  require(limits.max_tokens >= 4 && limits.max_tokens <= 262144, "max_image_tokens",
          limits.max_tokens, "4 to 262144");
  require(limits.min_pixels >= 0 && limits.min_pixels <= image::kMaxPixels, "min_pixels",
          limits.min_pixels, "0 to 1073741824");
  if (limits.max_wh_ratio) {
    const double ratio = *limits.max_wh_ratio;
    require(ratio > 0.0 && ratio <= 1e6, "max_wh_ratio", ratio, "above 0, at most 1000000");
  }
}

CanvasPlan plan_canvas(image::Size source, const ImageLimits& limits) {
  image::check_size(source);
  Sides s{.width = static_cast<double>(source.width), .height = static_cast<double>(source.height)};
  if (limits.max_wh_ratio && s.width > s.height * *limits.max_wh_ratio) {
    s.width = s.height * *limits.max_wh_ratio;
  }
  const double area = s.width * s.height;
  const double min_pixels = static_cast<double>(limits.min_pixels);
  if (0.0 < area && area < min_pixels) {
    const double ratio = std::sqrt(min_pixels / area);  // equal to pow(x, 0.5) wherever it matters
    s.width = std::trunc(s.width * ratio);
    s.height = std::trunc(s.height * ratio);
  }
  CanvasPlan plan;
  plan.size = {ceil_to_patch(s.width, limits), ceil_to_patch(s.height, limits)};
  plan.tokens = token_grid(plan.size, limits);
  if (span_tokens(plan.tokens) > limits.max_tokens) {
    plan.size = solve(s, limits);
    plan.tokens = token_grid(plan.size, limits);
  }
  plan.span_tokens = span_tokens(plan.tokens);
  if (plan.tokens.rows < 1 || plan.tokens.columns < 1 || plan.span_tokens > limits.max_tokens) {
    throw Error(ErrorCode::bad_request,
                str_cat("a picture of ", size_text(source), " pixels: the model's limits (",
                        limits.max_tokens, " tokens, cells of ", limits.patch * limits.downsample,
                        " pixels) leave no canvas for this shape, found ", size_text(plan.size),
                        "; crop the picture closer to a square"));
  }
  plan.patches = {.rows = plan.size.height / limits.patch,
                  .columns = plan.size.width / limits.patch};
  return plan;
}

ImagePlan plan_image(image::Size source, const ImageLimits& limits, const PrepareOptions& options) {
  image::check_size(source);
  const bool is_repeated = options.policy.plan == image::PlanRule::repeated;
  ImagePlan plan{.source = source, .shrunk = source, .canvas = {}, .content = {}};
  if (is_repeated && options.is_low_detail) {
    plan.shrunk = low_detail_size(source);
  }
  plan.canvas =
      is_repeated ? plan_repeatedly(plan.shrunk, limits) : plan_canvas(plan.shrunk, limits);
  const image::Size canvas = plan.canvas.size;
  if (limits.max_wh_ratio && static_cast<double>(plan.shrunk.width) >=
                                 *limits.max_wh_ratio * static_cast<double>(plan.shrunk.height)) {
    plan.content = {.x = 0, .y = 0, .width = canvas.width, .height = canvas.height};
    return plan;
  }
  image::Size content = image::contain_size(plan.shrunk, canvas);
  if (is_repeated) {
    content = {std::max<int64_t>(content.width, 1), std::max<int64_t>(content.height, 1)};
  }
  plan.content = image::centred_box(content, canvas);
  if (plan.content.width < 1 || plan.content.height < 1) {
    refuse_vanished_content(plan);
  }
  return plan;
}

PreparedImage prepare_image(const image::Image& source, const ImageLimits& limits,
                            const PrepareOptions& options) {
  PreparedImage out{
      .plan = plan_image(source.size(), limits, options), .canvas = {}, .patches = {}};
  const image::Box& content = out.plan.content;
  image::Image shrunk;
  if (out.plan.shrunk != source.size()) {
    shrunk = image::shrink_opencv_area(source, out.plan.shrunk);
  }
  image::Image resized = image::resample(out.plan.shrunk == source.size() ? source : shrunk,
                                         {content.width, content.height}, options.policy.resampler);
  if (resized.size() == out.plan.canvas.size) {
    out.canvas = std::move(resized);
  } else {
    out.canvas = image::Image(out.plan.canvas.size, kPadding);
    image::paste(resized, content.x, content.y, out.canvas);
  }
  out.patches = image::patchify(out.canvas, limits.patch, image::signed_unit_table());
  return out;
}

}  // namespace tessera::deepseek_v41
