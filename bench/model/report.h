// What a benchmark of a model reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op_bench.h"

namespace tessera::bench {

struct ModelReport {
  std::vector<Result> results;     // the whole first, then its parts
  MachineLimits limits;            // measured in the same run
  int64_t weight_bytes = 0;        // of all generated weights
  int64_t active_bytes = 0;        // weights that one token reads (decode)
  int64_t peak_bytes = 0;          // peak memory of the process before the limits were measured
  std::vector<std::string> notes;  // how to read the figures, one line each
};

// Peak resident memory of this process so far; 0 where the system does not tell.
int64_t peak_memory_bytes();
// Memory that can still be had without swapping; 0 where the system does not tell.
int64_t available_memory_bytes();

// Limits, results and notes, one a line, for people.
std::string report_text(const ModelReport& report);

}  // namespace tessera::bench
