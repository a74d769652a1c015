// What the rows of a tap stand for: tokens of the prompt, cells and patches of its pictures.
// Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trace/picture_grid.h"
#include "trace/reader.h"
#include "trace/stages.h"

namespace tessera::trace {

class RowLabels {
 public:
  // Reads `ids`, `types`, the pictures' grids and the calls of the trace, as far as they are there.
  RowLabels(const TraceFile& trace, std::function<std::string(int64_t id)> token_text);

  // "image 0, cell (4,7)", "' carrot'", "image 0, patch (0,5)", "line 3"; empty when unknown.
  std::string label(const StageMatch& match, int64_t row) const;

 private:
  std::string token(int64_t call, int64_t row) const;
  std::string position(int64_t position) const;
  std::string token_name(int64_t id) const;
  // "image 0, patch (0,5)", "video 1, frames 4-5, cell (0,5)".
  std::string place(const std::string& owner, int64_t row, bool is_cell) const;
  const PictureGrid* grid(const std::string& owner) const;

  std::vector<int64_t> ids_, types_, tokens_;
  std::vector<TraceCall> calls_;
  std::map<std::string, PictureGrid> grids_;  // by owner: "image0"
  std::function<std::string(int64_t id)> token_text_;
};

}  // namespace tessera::trace
