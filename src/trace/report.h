// Compared taps as text: one line per tap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/sinks.h"

namespace tessera::trace {

// The limit of the taps whose names match.
struct LimitRule {
  Globs taps;
  Limit limit;
};

// The first rule that matches counts; a tap without a rule must be equal.
class Limits {
 public:
  Limits() = default;
  explicit Limits(std::vector<LimitRule> rules) : rules_(std::move(rules)) {}
  Limit of(std::string_view name) const;

 private:
  std::vector<LimitRule> rules_;
};

enum class Verdict {
  equal,   // same shape, every element equal
  within,  // not equal, but within the limit
  over,    // over the limit
  broken,  // an element is NaN or infinite where the reference differs
  shape,   // shapes differ
};
std::string_view verdict_name(Verdict verdict);
Verdict judge(const TapDifference& difference, const Limit& limit);

struct ReportOptions {
  bool only_failures = true;  // leaves out taps that are equal or within
  int64_t max_lines = 40;     // more taps are counted, not listed
};

// Aligned columns: name, shape, max_abs, rel_l2, changed, verdict with the first element of what
// failed; then the missing and extra taps. Empty when there is nothing to tell.
std::string report(const Comparer& comparer, const Limits& limits,
                   const ReportOptions& options = {});

// Whether something was compared, all of it is equal or within its limit, and no tap is missing.
// Group sums of excerpts are not judged.
bool all_within(const Comparer& comparer, const Limits& limits);

}  // namespace tessera::trace
