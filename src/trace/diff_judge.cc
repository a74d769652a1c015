#include "trace/diff_judge.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/str_cat.h"

namespace tessera::trace {
namespace {

bool is_bad(TapStatus status) {
  return status == TapStatus::over || status == TapStatus::broken || status == TapStatus::shape;
}

// Number of the forward call that a tap belongs to, -1 for none.
int64_t call_of(std::string_view name) {
  int64_t call = -1;
  if (!name.starts_with('c')) {
    return call;
  }
  const auto result = std::from_chars(name.data() + 1, name.data() + name.size(), call);
  return result.ec == std::errc() ? call : -1;
}

struct Findings {
  const TapDiff* bad = nullptr;      // the first that departs
  const TapDiff* tie = nullptr;      // the first tie
  const TapDiff* excused = nullptr;  // the first that departs behind it
};

Findings find_first(const DiffReport& report) {
  Findings found;
  std::set<std::string_view> touched;  // by a tie
  int64_t tie_call = -1;
  for (const TapDiff& tap : report.taps) {
    if (tap.status == TapStatus::tie && found.tie == nullptr) {
      found.tie = &tap;
      tie_call = call_of(tap.name);
    }
    const bool is_touched =
        tap.status == TapStatus::tie || (found.tie != nullptr && call_of(tap.name) > tie_call) ||
        std::any_of(tap.parents.begin(), tap.parents.end(),
                    [&](const std::string& parent) { return touched.contains(parent); });
    if (is_touched && !report.is_forced) {
      touched.insert(tap.name);
    }
    if (is_bad(tap.status)) {
      const bool is_excused = touched.contains(tap.name) && tap.status != TapStatus::shape;
      const TapDiff*& slot = is_excused ? found.excused : found.bad;
      slot = slot == nullptr ? &tap : slot;
    }
  }
  return found;
}

std::string described(const TapDiff& tap) {
  if (tap.status == TapStatus::shape) {
    return str_cat(tap.name, " has shape ", tap.shape, ", the reference ", tap.reference_shape);
  }
  std::string text = tap.name;
  if (tap.first.has_value() && tap.first->row >= 0) {
    text += str_cat(" row ", tap.first->row);
  }
  if (!tap.row_label.empty()) {
    text += str_cat(" (", tap.row_label, ")");
  }
  if (!tap.note.empty()) {
    return str_cat(text, ": ", tap.note);
  }
  if (tap.first.has_value()) {
    text += str_cat(": reference ", tap.first->reference, ", ours ", tap.first->ours);
  }
  return text;
}

std::string cause_of(const TapDiff& tap, const DiffReport& report) {
  const bool has_parents = tap.stage != nullptr && !tap.stage->parents.empty();
  if (report.is_forced) {
    return has_parents && tap.parents.empty()
               ? "the reference has not recorded its inputs, so they were ours"
               : "inputs are the reference's";
  }
  int64_t compared = 0;
  bool is_equal = true;
  double largest = 0;  // share of a tolerance
  for (const TapDiff& parent : report.taps) {
    const bool is_input =
        std::find(tap.parents.begin(), tap.parents.end(), parent.name) != tap.parents.end();
    if (!is_input || !is_judged(parent.status)) {
      continue;
    }
    ++compared;
    is_equal = is_equal && parent.status == TapStatus::equal;
    if (parent.tolerance.rms > 0) {
      largest = std::max(largest, parent.metrics.rms / parent.tolerance.rms);
    }
  }
  if (compared == 0) {
    return has_parents ? "its inputs are not in the traces" : "it has no inputs in the traces";
  }
  return is_equal
             ? "inputs equal"
             : str_cat("inputs within tolerance (at most ", std::round(100 * largest), " % of it)");
}

}  // namespace

bool is_judged(TapStatus status) {
  return status != TapStatus::missing && status != TapStatus::extra &&
         status != TapStatus::not_compared;
}

void judge(DiffReport& report) {
  const Findings found = find_first(report);
  if (found.bad != nullptr) {
    report.verdict = DiffVerdict::diverged;
    report.first = found.bad;
    report.cause = cause_of(*found.bad, report);
    report.line = str_cat("first divergence: ", described(*found.bad), "; ", report.cause);
  } else if (found.tie != nullptr) {
    report.verdict = DiffVerdict::tie;
    report.first = found.tie;
    report.cause = "the scores differ by no more than their noise";
    report.line = str_cat("tie: ", described(*found.tie));
    if (found.excused != nullptr) {
      report.line += str_cat("; from ", found.excused->name,
                             " on the traces differ as another pick makes them: feed the "
                             "reference's picks (tessera trace --force) to judge what follows");
    }
  } else {
    const int64_t within =
        std::count_if(report.taps.begin(), report.taps.end(),
                      [](const TapDiff& tap) { return tap.status == TapStatus::within; });
    report.verdict = DiffVerdict::equal;
    report.line = str_cat("no divergence: ", report.taps.size(), " taps, ", within,
                          " of them differ within the tolerance");
  }
}

std::string_view tap_status_name(TapStatus status) {
  constexpr std::string_view kNames[] = {"equal", "within",  "tie",   "over",        "broken",
                                         "shape", "missing", "extra", "not_compared"};
  return kNames[static_cast<size_t>(status)];
}

std::string_view diff_verdict_name(DiffVerdict verdict) {
  constexpr std::string_view kNames[] = {"equal", "tie", "diverged"};
  return kNames[static_cast<size_t>(verdict)];
}

}  // namespace tessera::trace
