#include "trace/picture_grid.h"

#include <vector>

#include "base/str_cat.h"
#include "trace/convert.h"

namespace tessera::trace {
namespace {

constexpr int64_t kMergeSide = 2;
constexpr int64_t kMostSide = 64;

// Patches per side of a cell, if exactly one number gives these counts.
int64_t side_of(const PictureGrid& grid) {
  int64_t found = 0;
  for (int64_t side = 1; side <= kMostSide; ++side) {
    const bool fits = (grid.patch_rows + side - 1) / side == grid.cell_rows &&
                      (grid.patch_columns + side - 1) / side == grid.cell_columns;
    if (fits && found != 0) {
      return 0;
    }
    found = fits ? side : found;
  }
  return found;
}

}  // namespace

PictureGrid::Place PictureGrid::patch(int64_t index) const {
  const int64_t frame = index / (patch_rows * patch_columns);
  const int64_t inside = index % (patch_rows * patch_columns);
  if (!is_merge_order) {
    return {frame, inside / patch_columns, inside % patch_columns};
  }
  const int64_t block = inside / (kMergeSide * kMergeSide);
  const int64_t within = inside % (kMergeSide * kMergeSide);
  return {frame, block / cell_columns * kMergeSide + within / kMergeSide,
          block % cell_columns * kMergeSide + within % kMergeSide};
}

PictureGrid::Place PictureGrid::cell(int64_t index) const {
  const int64_t inside = index % (cell_rows * cell_columns);
  return {index / (cell_rows * cell_columns), inside / cell_columns, inside % cell_columns};
}

std::optional<PictureGrid> picture_grid(const TraceFile& trace, std::string_view owner) {
  const std::optional<TensorView> view = trace.find(str_cat(owner, ".grid"));
  if (!view.has_value() || !is_integer(view->dtype) ||
      (view->elements() != 3 && view->elements() != 4)) {
    return std::nullopt;
  }
  // A double never fails, and no real grid is beyond it.
  std::vector<double> values(static_cast<size_t>(view->elements()));
  widen(*view, 0, values);
  for (const double value : values) {
    if (!(value >= 1 && value <= 1e6)) {
      return std::nullopt;
    }
  }
  const auto at = [&](size_t i) { return static_cast<int64_t>(values[i]); };
  PictureGrid grid;
  if (values.size() == 4) {
    grid.patch_rows = at(0);
    grid.patch_columns = at(1);
    grid.cell_rows = at(2);
    grid.cell_columns = at(3);
    grid.side = side_of(grid);
    return grid;
  }
  if (at(1) % kMergeSide != 0 || at(2) % kMergeSide != 0) {
    return std::nullopt;
  }
  grid.frames = at(0);
  grid.patch_rows = at(1);
  grid.patch_columns = at(2);
  grid.cell_rows = at(1) / kMergeSide;
  grid.cell_columns = at(2) / kMergeSide;
  grid.side = kMergeSide;
  grid.is_merge_order = true;
  return grid;
}

}  // namespace tessera::trace
