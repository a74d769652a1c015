#include "trace/report.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/str_cat.h"

namespace tessera::trace {
namespace {

constexpr size_t kColumns = 6;
using Line = std::array<std::string, kColumns>;

// Three significant digits: "1.23e-05", "0", "inf".
std::string short_number(double value) {
  if (value == 0) {
    return "0";
  }
  std::array<char, 32> text;
  const std::to_chars_result result =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 3);
  return std::string(text.data(), result.ptr);
}

bool is_failure(Verdict verdict) { return verdict != Verdict::equal && verdict != Verdict::within; }

std::string verdict_text(const TapDifference& difference, Verdict verdict) {
  if (verdict == Verdict::shape) {
    return str_cat("shape, reference ", shape_text(difference.reference_shape));
  }
  if (!is_failure(verdict)) {
    return std::string(verdict_name(verdict));
  }
  const ElementPair& first = difference.metrics.first;
  return str_cat(verdict_name(verdict), ", first at ", first.index, " (row ",
                 difference.first_row(), "): reference ", first.reference, ", ours ", first.ours);
}

Line make_line(const TapDifference& difference, Verdict verdict) {
  const Metrics& m = difference.metrics;
  Line line = {difference.name,
               shape_text(difference.shape),
               short_number(m.max_abs),
               short_number(m.relative_l2),
               short_number(100 * m.changed_share()) + "%",
               verdict_text(difference, verdict)};
  if (difference.group_abs_sum_error && difference.group_sum_error) {
    line[kColumns - 1] += str_cat(", group sums ", short_number(*difference.group_sum_error), " / ",
                                  short_number(*difference.group_abs_sum_error));
  }
  return line;
}

std::string align(const std::vector<Line>& lines) {
  std::array<size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string out;
  for (const Line& line : lines) {
    for (size_t i = 0; i + 1 < kColumns; ++i) {
      out += line[i];
      out.append(widths[i] - line[i].size() + 2, ' ');
    }
    out += line[kColumns - 1];
    out += '\n';
  }
  return out;
}

template <typename Names>
std::string list_names(std::string_view label, const Names& names, int64_t max_names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (static_cast<int64_t>(i) == max_names) {
      return out + str_cat(label, ": ", names.size() - i, " more\n");
    }
    out += str_cat(label, ": ", names[i], "\n");
  }
  return out;
}

}  // namespace

Limit Limits::of(std::string_view name) const {
  for (const LimitRule& rule : rules_) {
    if (rule.taps.matches(name)) {
      return rule.limit;
    }
  }
  return Limit::equal();
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::equal:
      return "equal";
    case Verdict::within:
      return "within";
    case Verdict::over:
      return "over";
    case Verdict::broken:
      return "broken";
    case Verdict::shape:
      return "shape";
  }
  TESSERA_UNREACHABLE();
}

Verdict judge(const TapDifference& difference, const Limit& limit) {
  if (!difference.same_shape()) {
    return Verdict::shape;
  }
  if (difference.metrics.broken > 0) {
    return Verdict::broken;
  }
  if (difference.metrics.changed == 0) {
    return Verdict::equal;
  }
  return is_within(difference.metrics, limit) ? Verdict::within : Verdict::over;
}

std::string report(const Comparer& comparer, const Limits& limits, const ReportOptions& options) {
  std::vector<Line> lines;
  int64_t left_out = 0;
  for (const TapDifference& difference : comparer.differences()) {
    const Verdict verdict = judge(difference, limits.of(difference.name));
    if (options.only_failures && !is_failure(verdict)) {
      continue;
    }
    if (static_cast<int64_t>(lines.size()) >= options.max_lines) {
      ++left_out;
    } else {
      lines.push_back(make_line(difference, verdict));
    }
  }
  std::string out;
  if (!lines.empty()) {
    lines.insert(lines.begin(), {"tap", "shape", "max_abs", "rel_l2", "changed", "verdict"});
    out = align(lines);
  }
  if (left_out > 0) {
    out += str_cat("... ", left_out, " more taps\n");
  }
  return out + list_names("missing", comparer.missing(), options.max_lines) +
         list_names("extra", comparer.extra(), options.max_lines);
}

bool all_within(const Comparer& comparer, const Limits& limits) {
  return !comparer.differences().empty() && comparer.missing().empty() &&
         std::none_of(comparer.differences().begin(), comparer.differences().end(),
                      [&](const TapDifference& difference) {
                        return is_failure(judge(difference, limits.of(difference.name)));
                      });
}

}  // namespace tessera::trace
