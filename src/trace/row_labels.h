// What the rows of a tap stand for: tokens of the prompt, cells and patches of its pictures.
// Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trace/reader.h"
#include "trace/stages.h"

namespace tessera::trace {

class RowLabels {
 public:
  // Reads `ids`, `types`, `imageK.grid` and the calls of the trace, as far as they are there.
  RowLabels(const TraceFile& trace, std::function<std::string(int64_t id)> token_text);

  // "image 0, cell (4,7)", "' carrot'", "image 0, patch (0,5)", "line 3"; empty when unknown.
  std::string label(const StageMatch& match, int64_t row) const;

 private:
  struct Grid {
    int64_t patch_columns = 0;
    int64_t cell_columns = 0;
  };
  std::string token(int64_t call, int64_t row) const;
  std::string position(int64_t position) const;
  std::string token_name(int64_t id) const;
  const Grid* grid(int64_t image) const;

  std::vector<int64_t> ids_, types_, tokens_;
  std::vector<TraceCall> calls_;
  std::map<int64_t, Grid> grids_;
  std::function<std::string(int64_t id)> token_text_;
};

}  // namespace tessera::trace
