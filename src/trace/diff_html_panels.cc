#include "trace/diff_html_panels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/str_cat.h"
#include "trace/convert.h"
#include "trace/diff_html_rows.h"

namespace tessera::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string_view first_part(std::string_view tap) { return tap.substr(0, tap.find('.')); }

// The grid of a tap whose rows are patches or cells; a video's frames stand below one another.
// Nothing if it does not fit the number of rows.
std::optional<RowGrid> grid_of(const TapDiff& tap, int64_t rows, const TraceFile& reference) {
  const bool is_cells = tap.stage->rows == "cells";
  if (!is_cells && tap.stage->rows != "patches") {
    return std::nullopt;
  }
  const std::optional<PictureGrid> grid = picture_grid(reference, first_part(tap.name));
  if (!grid.has_value() || rows != (is_cells ? grid->cells() : grid->patches())) {
    return std::nullopt;
  }
  RowGrid out;
  out.rows = grid->frames * (is_cells ? grid->cell_rows : grid->patch_rows);
  out.columns = is_cells ? grid->cell_columns : grid->patch_columns;
  const int64_t side = is_cells ? grid->side : 1;
  if (side > 0 && grid->frames == 1) {
    out.picture = std::string(first_part(tap.name));
    out.height = static_cast<double>(grid->patch_rows) / static_cast<double>(out.rows * side);
    out.width = static_cast<double>(grid->patch_columns) / static_cast<double>(out.columns * side);
  }
  if (grid->is_merge_order && !is_cells) {
    out.order = *grid;
  }
  return out;
}

int64_t parts(int64_t whole, int64_t step) { return (whole + step - 1) / step; }

int64_t step_of(const RowPanel& panel) {
  int64_t step = 1;
  if (!panel.grid.has_value()) {
    return parts(panel.rows, RowPanel::kMostValues);
  }
  while (parts(panel.grid->rows, step) * parts(panel.grid->columns, step) > RowPanel::kMostValues) {
    ++step;
  }
  return step;
}

void prepare(RowPanel& panel) {
  panel.step = step_of(panel);
  const int64_t values = panel.grid.has_value() ? parts(panel.grid->rows, panel.step) *
                                                      parts(panel.grid->columns, panel.step)
                                                : parts(panel.rows, panel.step);
  panel.values.assign(static_cast<size_t>(values), kNan);
}

double& value_of(RowPanel& panel, int64_t row) {
  int64_t at = row / panel.step;
  if (panel.grid.has_value()) {
    const int64_t columns = panel.grid->columns;
    int64_t line = row / columns;
    int64_t column = row % columns;
    if (const std::optional<PictureGrid>& order = panel.grid->order) {
      const PictureGrid::Place place = order->patch(row);
      line = place.frame * order->patch_rows + place.row;
      column = place.column;
    }
    at = line / panel.step * parts(columns, panel.step) + column / panel.step;
  }
  return panel.values[static_cast<size_t>(at)];
}

void measure_rows(const TapDiff& tap, const RowPairs& pairs, TapPanel& panel) {
  const StageKind kind = tap.stage->kind;
  for (int64_t i = 0; i < pairs.kept; ++i) {
    const int64_t row = pairs.number(i);
    double value = 0;
    if (panel.histogram.has_value()) {
      value =
          measure_values(pairs, i, tap.metrics.reference_rms, panel.rows.measure, *panel.histogram);
    } else if (kind == StageKind::integers) {
      value = measure_integers(pairs, i);
    } else {
      value = measure_picks(pairs, i, kind == StageKind::mask);
    }
    double& kept = value_of(panel.rows, row);
    kept = std::isnan(kept) ? value : std::max(kept, value);
  }
}

// Pictures [height, width, channels]: squares of pixels instead of lines.
void measure_picture(const RowPairs& pairs, RowPanel& panel) {
  const int64_t channels = pairs.shape[2];
  panel.grid = RowGrid{.rows = pairs.shape[0], .columns = pairs.shape[1]};
  panel.rows = panel.grid->rows * panel.grid->columns;
  prepare(panel);
  std::vector<double> squares(panel.values.size()), counts(panel.values.size());
  const int64_t columns = parts(panel.grid->columns, panel.step);
  for (int64_t y = 0; y < pairs.rows; ++y) {
    int64_t element = 0;
    for_row(pairs, y, [&](const double* r, const double* o, int64_t count) {
      for (int64_t k = 0; k < count; ++k, ++element) {
        const int64_t x = element / channels;
        const size_t at = static_cast<size_t>(y / panel.step * columns + x / panel.step);
        const double d = o[k] - r[k];
        squares[at] += is_equal_element(r[k], o[k]) ? 0 : d * d;
        ++counts[at];
      }
    });
  }
  for (size_t i = 0; i < squares.size(); ++i) {
    const double mean = squares[i] / counts[i];
    panel.values[i] = std::isfinite(mean) ? std::sqrt(mean) : kInfinity;
  }
}

RowMeasure measure_of(StageKind kind) {
  switch (kind) {
    case StageKind::values:
      return RowMeasure::rms;
    case StageKind::image:
      return RowMeasure::levels;
    default:
      return RowMeasure::share;
  }
}

// The position of row 0: from the calls of the trace, for cK taps; the prompt itself starts at 0.
int64_t start_of(const TapDiff& tap, int64_t rows, const TraceFile& trace) {
  if (tap.stage->rows != "tokens") {
    return -1;
  }
  const std::string_view part = first_part(tap.name);
  if (part == tap.name) {
    return 0;
  }
  size_t call = 0;
  const std::vector<TraceCall>& calls = trace.info().calls;
  const bool is_call = part.starts_with('c') && parse_number(part.substr(1), call);
  return is_call && call < calls.size() && calls[call].rows == rows ? calls[call].start : -1;
}

}  // namespace

std::optional<TapPanel> tap_panel(const TapDiff& tap, const TraceFile& reference,
                                  const TraceFile& ours) {
  const bool differs = tap.status == TapStatus::within || tap.status == TapStatus::tie ||
                       tap.status == TapStatus::over || tap.status == TapStatus::broken;
  if (!differs || tap.stage == nullptr) {
    return std::nullopt;
  }
  const std::optional<RowPairs> pairs = row_pairs(tap.name, reference, ours);
  if (!pairs.has_value()) {
    return std::nullopt;
  }
  const StageKind kind = tap.stage->kind;
  TapPanel panel;
  panel.rows.measure = measure_of(kind);
  panel.rows.rows = pairs->rows;
  panel.rows.grid = grid_of(tap, pairs->rows, reference);
  panel.rows.start = start_of(tap, pairs->rows, reference);
  if (kind == StageKind::values || kind == StageKind::image) {
    panel.histogram.emplace();
  }
  prepare(panel.rows);
  measure_rows(tap, *pairs, panel);
  if (kind == StageKind::image && pairs->shape.rank() == 3 && pairs->numbers.empty()) {
    measure_picture(*pairs, panel.rows);
    panel.rows.grid->picture = std::string(first_part(tap.name));
  }
  return panel;
}

}  // namespace tessera::trace
