// Two traces compared along the computation: which tap departs first, and is it the culprit?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/reader.h"
#include "trace/stages.h"
#include "trace/tolerance.h"

namespace tessera::trace {

enum class TapStatus {
  equal,         // every element
  within,        // not equal, inside the tolerance
  tie,           // other picks, by no more than the noise of their scores
  over,          // outside the tolerance; for integers and pixels: not equal
  broken,        // NaN or infinite where the reference differs
  shape,         // shapes differ
  missing,       // only the reference has it
  extra,         // only ours has it
  not_compared,  // no stage covers it, or only an excerpt is left on our side
};
std::string_view tap_status_name(TapStatus status);

// One element with both values.
struct DiffElement {
  int64_t row = -1;
  int64_t column = -1;  // inside the row
  double reference = 0;
  double ours = 0;
};

struct DiffMetrics {
  int64_t elements = 0;
  int64_t changed = 0;
  int64_t outside = 0;  // elements further apart than the row tolerance times the reference's rms
  int64_t broken = 0;   // one is NaN or infinite, and they differ
  double max_abs = 0;
  double max_rel = 0;  // |difference| / max(|reference|, the reference's rms)
  double rms = 0;      // of the difference, relative to the reference's
  double worst_row_rms = 0;
  int64_t worst_row = -1;
  double cosine = 1;
  double psnr = 0;  // decibels, images only; infinite for equal ones
  double ulp = 0;   // largest difference in steps of the number grid at the reference
  double reference_rms = 0;
};

struct TapDiff {
  std::string name;
  const Stage* stage = nullptr;  // nullptr: not covered
  TapStatus status = TapStatus::equal;
  std::string reference_shape, shape;  // "[4,64]"; empty on the side that lacks it
  std::string reference_dtype, dtype;
  Tolerance tolerance;
  DiffMetrics metrics;
  std::optional<DiffElement> first;  // the worst element of the first bad row, or of the worst row
  std::string row_label;             // "row 37 = image 0, cell (4,7)"
  std::string note;                  // picks: "expert 5 instead of 9, scores differ by ..."
  std::vector<std::string> parents;  // compared inputs
};

enum class DiffVerdict { equal, tie, diverged };
std::string_view diff_verdict_name(DiffVerdict verdict);

struct DiffReport {
  std::string reference, ours;  // file names
  DiffVerdict verdict = DiffVerdict::equal;
  const TapDiff* first = nullptr;     // of `taps`: the divergence, or the first tie
  std::string cause;                  // "inputs equal", ...
  std::string line;                   // the verdict in one line
  std::vector<std::string> warnings;  // metadata that differ, first of all
  std::vector<TapDiff> taps;          // in the order of the computation
  bool is_forced = false;             // ours was fed the reference's values at every stage

  DiffReport() = default;
  DiffReport(DiffReport&&) = default;
  DiffReport& operator=(DiffReport&&) = default;
};

struct DiffOptions {
  // The text of a token, for row labels; may be empty.
  std::function<std::string(int64_t id)> token_text;
  std::function<void(int64_t done, int64_t total)> on_progress;  // in taps
};

// Throws Error{bad_file} if the traces have no tap in common.
DiffReport diff(const TraceFile& reference, const TraceFile& ours, const StageMap& stages,
                const Tolerances& tolerances, const DiffOptions& options = {});

// Tolerances that hold between two runs of one implementation, with a margin of `factor`: the
// content of a tolerance file, one rule per kind of stage.
io::Json learn_tolerances(const TraceFile& a, const TraceFile& b, const StageMap& stages,
                          double factor);

// The JSON contract of `tessera diff --json`.
io::Json to_json(const DiffReport& report);
// For people: the verdict, hints, and a table of what is not equal (all taps when `all`).
std::string to_text(const DiffReport& report, bool all);

}  // namespace tessera::trace
