// What a trace says about itself: the `__metadata__` of the file (docs/numerics.md, trace format).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tessera::trace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// One forward call: positions start .. start + rows - 1.
struct TraceCall {
  int64_t start = 0;
  int64_t rows = 0;
  friend bool operator==(const TraceCall&, const TraceCall&) = default;
};

// Empty (null, no entries) where the file says nothing.
struct TraceInfo {
  std::string producer;
  std::string model;  // SHA-256 of config.json's bytes, hex
  io::Json request;   // `case`: an object of the case-file form
  std::vector<TraceCall> calls;
  std::vector<int64_t> tokens;  // the id chosen after each call
  std::string activations;      // "bf16" or "f32"
  std::string index_keys;       // "own" or "reference" (DeepSeek-V4.1)
  std::string overlay_of;       // name of the trace that this one is laid over
};

// Reads `format` "trace/1" or nothing; `calls` as [[start, rows], ...] or [{"start", "rows"}, ...];
// `dtype` where `activations` is missing. Unknown keys are left alone. Throws Error{bad_file} that
// begins with `name` for another format and for values of the wrong form.
TraceInfo parse_trace_info(const Metadata& metadata, std::string_view name);

// The keys that have a value, after `format`.
Metadata trace_metadata(const TraceInfo& info);

}  // namespace tessera::trace
