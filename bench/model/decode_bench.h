// One token through text layers of full width, with generated weights that no cache holds.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "model/report.h"
#include "models/deepseek_v41/config.h"

namespace tessera::bench {

struct DecodeBenchOptions {
  IsaLevel isa = active_isa();
  int threads = 1;
  int64_t layers = 0;  // 0: as many as make a step read four times the last-level cache, at most 8
  int64_t experts = 32;    // per layer; tokens are routed to other ones in each step
  int64_t context = 2048;  // committed tokens
  int steps = 10;          // the fastest counts for the rates
};

// Result `decode.layer`: time and bytes of one layer, an equal part of a step of all layers and a
// small head. `gbs` counts the weights that one token reads, once; the limit is reading them from
// memory. Throws Error{bad_request} for options that make no sense or do not fit into memory.
ModelReport bench_decode(const deepseek_v41::Config& config, const DecodeBenchOptions& options);

}  // namespace tessera::bench
