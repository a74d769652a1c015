#include "trace/diff_html_panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "trace/diff_html_rows.h"
#include "trace/sinks.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two traces with one tap `t`, and a stage of its own.
class Pair {
 public:
  template <typename A, typename B>
  Pair(const Shape& shape, const std::vector<A>& reference, const std::vector<B>& ours) {
    reference_ = save("a", tensor_of<A>(shape, reference), {});
    ours_ = save("b", tensor_of<B>(shape, ours), {});
  }
  template <typename A, typename B>
  Pair(std::string name, const std::vector<int32_t>& grid, const Shape& shape,
       const std::vector<A>& reference, const std::vector<B>& ours)
      : name_(std::move(name)) {
    reference_ = save("a", tensor_of<A>(shape, reference), grid);
    ours_ = save("b", tensor_of<B>(shape, ours), {});
  }

  std::optional<TapPanel> panel(StageKind kind, std::string rows = "tokens",
                                double reference_rms = 1) const {
    Stage stage;
    stage.kind = kind;
    stage.rows = std::move(rows);
    TapDiff tap;
    tap.name = name_;
    tap.stage = &stage;
    tap.status = TapStatus::over;
    tap.metrics.reference_rms = reference_rms;
    return tap_panel(tap, *reference_, *ours_);
  }

 private:
  std::unique_ptr<TraceFile> save(std::string_view file, const Tensor& tensor,
                                  const std::vector<int32_t>& grid) {
    Writer writer(folder_ / file, {.storage = Storage::compact});
    writer.add(name_, tensor.view());
    if (!grid.empty()) {
      writer.add(name_.substr(0, name_.find('.')) + ".grid",
                 tensor_of<int32_t>({static_cast<int64_t>(grid.size())}, grid).view());
    }
    writer.commit();
    return std::make_unique<TraceFile>(folder_ / file);
  }

  TemporaryFolder folder_;
  std::string name_ = "t";
  std::unique_ptr<TraceFile> reference_, ours_;
};

int64_t total(const Histogram& h) {
  return std::accumulate(h.counts.begin(), h.counts.end(), h.equal + h.broken);
}

TEST(DiffHtmlPanelsTest, HistogramBinsAreHalfDecades) {
  // Differences of 2 * 10^(b / 2 - 9) fall into bin b; smaller and larger ones into the ends.
  std::vector<double> reference, ours;
  std::array<int64_t, Histogram::kBins> expected{};
  for (int b = -4; b < Histogram::kBins + 4; ++b) {
    for (const double factor : {1.01, 2.0, 3.15}) {
      reference.push_back(0);
      ours.push_back((b % 2 == 0 ? 1 : -1) * factor * std::pow(10.0, 0.5 * b - 9));
      ++expected[static_cast<size_t>(std::clamp(b, 0, Histogram::kBins - 1))];
    }
  }
  reference.insert(reference.end(), {1, kNan, kNan, 1, 1});
  ours.insert(ours.end(), {1, kNan, 1, kNan, kInfinity});
  const Pair pair({static_cast<int64_t>(ours.size())}, reference, ours);
  const std::optional<TapPanel> panel = pair.panel(StageKind::values);
  ASSERT_TRUE(panel.has_value());
  EXPECT_EQ(panel->histogram->counts, expected);
  EXPECT_EQ(panel->histogram->equal, 2);
  EXPECT_EQ(panel->histogram->broken, 3);
  EXPECT_EQ(total(*panel->histogram), static_cast<int64_t>(ours.size()));
  // In units of the reference's size: a hundred times that is four bins less.
  const std::optional<TapPanel> larger = pair.panel(StageKind::values, "tokens", 100);
  EXPECT_EQ(larger->histogram->counts[10], panel->histogram->counts[14]);
  // A reference of zeros: everything is in the last bin.
  const std::optional<TapPanel> zero = pair.panel(StageKind::values, "tokens", 0);
  EXPECT_EQ(zero->histogram->counts[Histogram::kBins - 1], static_cast<int64_t>(ours.size()) - 5);
}

TEST(DiffHtmlPanelsTest, RowsOfValues) {
  const Pair pair({3, 2}, std::vector<float>{1, 1, 2, 2, 1, 1},
                  std::vector<float>{1, 1, 2, 2.5f, kNan, 1});
  const std::optional<TapPanel> panel = pair.panel(StageKind::values);
  ASSERT_TRUE(panel.has_value());
  EXPECT_EQ(panel->rows.rows, 3);
  EXPECT_EQ(panel->rows.step, 1);
  ASSERT_EQ(panel->rows.values.size(), 3u);
  EXPECT_EQ(panel->rows.values[0], 0);
  EXPECT_DOUBLE_EQ(panel->rows.values[1], std::sqrt(0.25 / 8));
  EXPECT_EQ(panel->rows.values[2], kInfinity);
  EXPECT_EQ(total(*panel->histogram), 6);
}

TEST(DiffHtmlPanelsTest, ManyRowsAreSummarisedByTheirWorst) {
  std::vector<float> reference(5000, 1), ours(5000, 1);
  ours[0] = 1.5f;
  ours[4097] = 3;
  ours[4098] = 1.25f;
  const std::optional<TapPanel> panel = Pair({5000}, reference, ours).panel(StageKind::values);
  EXPECT_EQ(panel->rows.rows, 5000);
  EXPECT_EQ(panel->rows.step, 3);
  ASSERT_EQ(panel->rows.values.size(), 1667u);
  EXPECT_EQ(panel->rows.values[0], 0.5);
  EXPECT_EQ(panel->rows.values[1365], 2);
  EXPECT_EQ(panel->rows.values[1366], 0.25);
}

TEST(DiffHtmlPanelsTest, IntegersBeyondADoubleDiffer) {
  const int64_t large = (int64_t{1} << 60) + 1;
  const Pair pair({2, 2}, std::vector<int64_t>{large, 1, 2, 3},
                  std::vector<int64_t>{large - 1, 1, 2, 3});
  const std::optional<TapPanel> panel = pair.panel(StageKind::integers);
  EXPECT_FALSE(panel->histogram.has_value());
  EXPECT_EQ(panel->rows.measure, RowMeasure::share);
  EXPECT_EQ(panel->rows.values, (std::vector<double>{0.5, 0}));
  // Other storage, same numbers.
  const Pair narrow({2}, std::vector<int64_t>{7, 8}, std::vector<int32_t>{7, 9});
  EXPECT_EQ(narrow.panel(StageKind::integers)->rows.values, (std::vector<double>{0, 1}));
}

TEST(DiffHtmlPanelsTest, PicksAreSets) {
  const Pair pair({4, 4},
                  std::vector<int32_t>{1, 2, 3, 4, 1, 2, 3, 4, -1, -1, -1, -1, 5, 6, -1, -1},
                  std::vector<int32_t>{4, 3, 2, 1, 2, 3, 4, 5, -1, -1, -1, 8, 5, 6, -1, -1});
  EXPECT_EQ(pair.panel(StageKind::picks)->rows.values, (std::vector<double>{0, 0.25, 1, 0}));
  const Pair mask({2, 4}, std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0},
                  std::vector<uint8_t>{0, 1, 1, 0, 0, 0, 0, 0});
  EXPECT_EQ(mask.panel(StageKind::mask)->rows.values, (std::vector<double>{0.5, 0}));
}

TEST(DiffHtmlPanelsTest, PicturesAreMeasuredInSquares) {
  std::vector<uint8_t> reference(2 * 3 * 3, 100);
  std::vector<uint8_t> ours = reference;
  ours[3 * 3 + 3] = 109;  // line 1, column 1, red
  const Pair pair("image0.pixels", {}, {2, 3, 3}, reference, ours);
  const std::optional<TapPanel> panel = pair.panel(StageKind::image, "lines", 100);
  ASSERT_TRUE(panel.has_value());
  EXPECT_EQ(panel->rows.measure, RowMeasure::levels);
  ASSERT_TRUE(panel->rows.grid.has_value());
  EXPECT_EQ(panel->rows.grid->picture, "image0");
  EXPECT_EQ(panel->rows.grid->rows, 2);
  EXPECT_EQ(panel->rows.grid->columns, 3);
  EXPECT_EQ(panel->rows.values, (std::vector<double>{0, 0, 0, 0, std::sqrt(27), 0}));
  EXPECT_EQ(panel->histogram->counts[15], 1);  // 0.09
  // A large one in squares of at most 2048 in all.
  const std::vector<uint8_t> large(100 * 200 * 3, 1);
  std::vector<uint8_t> changed = large;
  changed.back() = 5;
  const std::optional<TapPanel> coarse =
      Pair("image0.pixels", {}, {100, 200, 3}, large, changed).panel(StageKind::image, "lines");
  EXPECT_EQ(coarse->rows.step, 4);
  EXPECT_EQ(coarse->rows.values.size(), 1250u);
  EXPECT_DOUBLE_EQ(coarse->rows.values.back(), std::sqrt(16.0 / 48));
}

TEST(DiffHtmlPanelsTest, GridsMustFitTheRows) {
  const std::vector<float> six = {1, 1, 1, 1, 1, 1};
  std::vector<float> off = six;
  off[4] = 2;
  const auto grid_of = [&](const std::vector<int32_t>& grid, const std::string& rows) {
    return Pair("image0.x", grid, {6}, six, off).panel(StageKind::values, rows)->rows.grid;
  };
  const std::optional<RowGrid> patches = grid_of({2, 3, 1, 2}, "patches");
  ASSERT_TRUE(patches.has_value());
  EXPECT_EQ(patches->columns, 3);
  EXPECT_EQ(patches->picture, "image0");
  EXPECT_EQ(patches->width, 1);
  const std::optional<RowGrid> cells = grid_of({5, 8, 2, 3}, "cells");  // cells of 3 x 3 patches
  ASSERT_TRUE(cells.has_value());
  EXPECT_DOUBLE_EQ(cells->height, 5.0 / 6);
  EXPECT_DOUBLE_EQ(cells->width, 8.0 / 9);
  // Cells of 2 or of 3 patches: the place on the picture is unknown.
  const std::optional<RowGrid> unknown = grid_of({4, 1, 6, 1}, "cells");
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->picture, "");
  EXPECT_FALSE(grid_of({2, 2, 1, 1}, "patches").has_value());
  EXPECT_FALSE(grid_of({6, 1, 6}, "patches").has_value());
  EXPECT_FALSE(grid_of({-2, -3, 1, 1}, "patches").has_value());
  EXPECT_FALSE(grid_of({2, 3, 2, 3}, "tokens").has_value());
}

TEST(DiffHtmlPanelsTest, NothingForWhatCannotBeShown) {
  EXPECT_FALSE(Pair({0, 4}, std::vector<float>{}, std::vector<float>{}).panel(StageKind::values));
  TemporaryFolder folder;
  Writer a(folder / "a"), b(folder / "b");
  a.add("t", tensor_of<float>({2}, {1, 2}).view());
  b.add("t", tensor_of<float>({1, 2}, {1, 3}).view());
  a.commit();
  b.commit();
  const TraceFile reference(folder / "a"), ours(folder / "b");
  Stage stage;
  TapDiff tap;
  tap.name = "t";
  tap.stage = &stage;
  tap.status = TapStatus::over;
  EXPECT_FALSE(tap_panel(tap, reference, ours));  // two shapes
  EXPECT_TRUE(tap_panel(tap, ours, ours));
  tap.status = TapStatus::equal;
  EXPECT_FALSE(tap_panel(tap, ours, ours));
  tap.status = TapStatus::over;
  tap.name = "absent";
  EXPECT_FALSE(tap_panel(tap, ours, ours));
}

TEST(DiffHtmlPanelsTest, AnExcerptShowsItsRows) {
  const std::string path = golden("v41-tower-full/700x420.fp32.safetensors");
  const TraceFile trace(path);
  std::string name;
  for (const std::string_view tap : trace.taps()) {
    if (trace.find_excerpt(tap) != nullptr) {
      name = std::string(tap);
    }
  }
  ASSERT_FALSE(name.empty());
  const Excerpt& excerpt = *trace.find_excerpt(name);
  // Ours is whole: as the excerpt, with one of its rows changed, and ones elsewhere.
  std::vector<float> values(static_cast<size_t>(excerpt.shape.elements()), 1);
  const size_t width = static_cast<size_t>(excerpt.width());
  const std::vector<float> kept = to_floats(excerpt.values);
  for (size_t i = 0; i < excerpt.rows.size(); ++i) {
    std::copy_n(
        kept.begin() + static_cast<std::ptrdiff_t>(i * width), width,
        values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(excerpt.rows[i]) * width));
  }
  values[static_cast<size_t>(excerpt.rows[1]) * width] += 1;
  TemporaryFolder folder;
  Writer writer(folder / "ours");
  writer.add(name, tensor_of<float>(excerpt.shape, values).view());
  writer.commit();
  Stage stage;
  stage.rows = "tokens";
  TapDiff tap;
  tap.name = name;
  tap.stage = &stage;
  tap.status = TapStatus::over;
  tap.metrics.reference_rms = 1;
  const std::optional<TapPanel> panel = tap_panel(tap, trace, TraceFile(folder / "ours"));
  ASSERT_TRUE(panel.has_value());
  ASSERT_EQ(panel->rows.rows, excerpt.shape[0]);
  ASSERT_EQ(panel->rows.step, 1);
  int64_t shown = 0;
  for (int64_t row = 0; row < panel->rows.rows; ++row) {
    const double value = panel->rows.values[static_cast<size_t>(row)];
    shown += std::isnan(value) ? 0 : 1;
    EXPECT_EQ(value > 0, row == excerpt.rows[1]) << row;
  }
  EXPECT_EQ(shown, static_cast<int64_t>(excerpt.rows.size()));
}

TEST(DiffHtmlPanelsTest, ThumbnailsAreMeans) {
  TemporaryFolder folder;
  Writer writer(folder / "a", {.storage = Storage::compact});
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 3 * 5; ++i) {
    pixels.insert(pixels.end(), {static_cast<uint8_t>(i * 10), 7, 255});
  }
  writer.add("image0.pixels", tensor_of<uint8_t>({3, 5, 3}, pixels).view());
  writer.add("flat", tensor_of<uint8_t>({3, 5}, std::vector<uint8_t>(15)).view());
  writer.add("wild", tensor_of<float>({1, 2, 3}, {-5, 300, kNan, 1, 2, 254.6f}).view());
  writer.commit();
  const TraceFile trace(folder / "a");
  const std::optional<Thumbnail> full = thumbnail(trace, "image0.pixels", 5);
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->pixels, pixels);
  const std::optional<Thumbnail> half = thumbnail(trace, "image0.pixels", 4);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->width, 3);
  EXPECT_EQ(half->height, 2);
  EXPECT_EQ(half->full_width, 5);
  // Reds 0 10 20 30 40 / 50 .. 90 / 100 .. 140 in squares of two.
  const std::vector<uint8_t> reds = {30, 50, 65, 105, 125, 140};
  for (size_t i = 0; i < reds.size(); ++i) {
    EXPECT_EQ(half->pixels[3 * i], reds[i]) << i;
    EXPECT_EQ(half->pixels[3 * i + 1], 7) << i;
    EXPECT_EQ(half->pixels[3 * i + 2], 255) << i;
  }
  EXPECT_EQ(thumbnail(trace, "wild", 5)->pixels, (std::vector<uint8_t>{0, 0, 0, 1, 2, 255}));
  EXPECT_FALSE(thumbnail(trace, "flat", 5).has_value());
  EXPECT_FALSE(thumbnail(trace, "absent", 5).has_value());
}

}  // namespace
}  // namespace tessera::trace
