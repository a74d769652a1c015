// What the exact half prefill saves: prompts through a narrow model of the released depth, window
// and layer roles, with and without the rows that no wanted output reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "models/deepseek_v41/config.h"

namespace tessera::bench {

struct PrefillBenchOptions {
  IsaLevel isa = active_isa();
  int threads = 1;
  std::vector<int64_t> lengths = {2048, 8192};  // tokens of the prompts
  int64_t chunk = 512;                          // most rows of a step
  int runs = 3;                                 // of each kind, in alternation
};

// One prompt. A layer-row is one row that leaves one layer.
struct PrefillResult {
  int64_t tokens = 0;
  double full_ms = 0;  // medians
  double half_ms = 0;
  int64_t full_rows = 0;  // layer-rows that were computed
  int64_t half_rows = 0;
  int64_t formula_rows = 0;  // that the row formula says (docs/engine.md)
  double speedup = 0;        // full_ms / half_ms
  double bound = 0;          // full_rows / half_rows
  bool bits_equal = false;   // last logits and the whole state
};

// Throws Error{bad_request} for options that make no sense.
std::vector<PrefillResult> bench_prefill(const deepseek_v41::Config& released,
                                         const PrefillBenchOptions& options);

std::string prefill_text(const PrefillResult& result);

}  // namespace tessera::bench
