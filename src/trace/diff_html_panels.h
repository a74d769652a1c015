// What the page shows of the elements of a tap: a histogram of the differences, and how large they
// are row by row. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "trace/diff.h"
#include "trace/picture_grid.h"
#include "trace/reader.h"

namespace tessera::trace {

// Counts of |difference| / reference rms in half decades; the first bin takes everything below, the
// last everything above.
struct Histogram {
  static constexpr int kBins = 24;
  static constexpr int kFirstExponent = -9;  // bin b: 10^(-9 + b / 2) to 10^(-9 + (b + 1) / 2)

  std::array<int64_t, kBins> counts{};
  int64_t equal = 0;
  int64_t broken = 0;  // one is NaN or infinite, and they differ
};

enum class RowMeasure {
  rms,     // of the difference, see row_rms()
  share,   // of the row's elements or picks that differ
  levels,  // root mean square of the difference of pixels
};

// Places of rows on a picture. The canvas may end before the last cells do.
struct RowGrid {
  int64_t rows = 0, columns = 0;
  std::string picture = {};      // "image0"; empty: what the grid covers is unknown
  double height = 1, width = 1;  // of the picture, as shares of what the grid covers
  std::optional<PictureGrid> order = std::nullopt;  // rows of the tap are not in the grid's order
};

struct RowPanel {
  static constexpr int64_t kMostValues = 2048;

  RowMeasure measure = RowMeasure::rms;
  int64_t rows = 0;
  // Value i is the largest of rows i * step .. (i + 1) * step - 1; on a grid, of step x step rows.
  // NaN where an excerpt has no row, infinite where an element is broken.
  int64_t step = 1;
  std::vector<double> values;
  std::optional<RowGrid> grid;
  int64_t start = -1;  // rows are tokens: the position of row 0 in the prompt; -1: unknown
};

struct TapPanel {
  std::optional<Histogram> histogram;  // values and pictures only
  RowPanel rows;
};

// Nothing for a tap that cannot be shown: equal, empty, of two shapes, or not in both traces.
std::optional<TapPanel> tap_panel(const TapDiff& tap, const TraceFile& reference,
                                  const TraceFile& ours);

// A picture, RGB, at most `side` pixels long and high, each one the mean of a square of the tap.
struct Thumbnail {
  int64_t width = 0, height = 0;            // of `pixels`
  int64_t full_width = 0, full_height = 0;  // of the tap
  std::vector<uint8_t> pixels;
};
// Of a tap [height, width, 3] with values 0 to 255; nothing for any other.
std::optional<Thumbnail> thumbnail(const TraceFile& trace, std::string_view tap, int64_t side);

}  // namespace tessera::trace
