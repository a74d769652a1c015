// Where the rows of a picture's taps lie on the picture. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trace/reader.h"

namespace tessera::trace {

// Of `imageK.grid` or `videoK.grid`. Four numbers (DeepSeek-V4.1): patch rows and columns, cell
// rows and columns; patches in the order of rows. Three (Qwen3-VL): frame pairs, patch rows and
// columns; cells are 2 x 2 patches, and the four patches of a cell follow one another.
struct PictureGrid {
  struct Place {
    int64_t frame = 0, row = 0, column = 0;
  };
  int64_t frames = 1;
  int64_t patch_rows = 0, patch_columns = 0;
  int64_t cell_rows = 0, cell_columns = 0;
  int64_t side = 0;  // patches per side of a cell; 0: the numbers allow several
  bool is_merge_order = false;

  int64_t patches() const { return frames * patch_rows * patch_columns; }
  int64_t cells() const { return frames * cell_rows * cell_columns; }
  Place patch(int64_t index) const;
  Place cell(int64_t index) const;
};

// Nothing if the tap is missing or no grid. `owner`: "image0".
std::optional<PictureGrid> picture_grid(const TraceFile& trace, std::string_view owner);

}  // namespace tessera::trace
