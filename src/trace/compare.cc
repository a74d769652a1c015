#include "trace/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/float_types.h"
#include "base/str_cat.h"
#include "trace/convert.h"
#include "trace/globs.h"

namespace tessera::trace {
namespace {

constexpr int64_t kBlock = 1024;  // elements widened at a time, on the stack
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Collects metrics element by element; indices are given, so that rows of a tap can be visited.
class Collector {
 public:
  void add(int64_t index, double reference, double ours) {
    ++metrics_.elements;
    const bool is_finite_reference = std::isfinite(reference);
    if (is_finite_reference) {
      metrics_.reference_peak = std::max(metrics_.reference_peak, std::fabs(reference));
      reference_squares_ += reference * reference;
    }
    if (reference == ours) {
      return;
    }
    const bool is_nan_reference = std::isnan(reference);
    const bool is_nan_ours = std::isnan(ours);
    metrics_.nan_reference += is_nan_reference ? 1 : 0;
    metrics_.nan_ours += is_nan_ours ? 1 : 0;
    if (is_nan_reference && is_nan_ours) {
      return;
    }
    if (!is_finite_reference || !std::isfinite(ours)) {
      ++metrics_.broken;
      change(index, reference, ours, kInfinity);
      return;
    }
    const double difference = ours - reference;
    difference_squares_ += difference * difference;
    metrics_.max_bf16_steps =
        std::max(metrics_.max_bf16_steps,
                 bf16_steps(static_cast<float>(reference), static_cast<float>(ours)));
    change(index, reference, ours, std::fabs(difference));
  }

  // As above without rounding: the difference of two int64 may need 65 bits, so only its magnitude
  // is a double.
  void add(int64_t index, int64_t reference, int64_t ours) {
    const double reference_value = static_cast<double>(reference);
    const double our_value = static_cast<double>(ours);
    ++metrics_.elements;
    metrics_.reference_peak = std::max(metrics_.reference_peak, std::fabs(reference_value));
    reference_squares_ += reference_value * reference_value;
    if (reference == ours) {
      return;
    }
    const uint64_t low = static_cast<uint64_t>(std::min(reference, ours));
    const uint64_t high = static_cast<uint64_t>(std::max(reference, ours));
    const double difference = static_cast<double>(high - low);
    difference_squares_ += difference * difference;
    change(index, reference_value, our_value, difference);
  }

  Metrics finish() {
    if (metrics_.broken > 0) {
      metrics_.relative_l2 = kInfinity;
    } else if (difference_squares_ > 0) {
      const double relative = std::sqrt(difference_squares_) / std::sqrt(reference_squares_);
      metrics_.relative_l2 = std::isnan(relative) ? kInfinity : relative;
    }
    return metrics_;
  }

 private:
  void change(int64_t index, double reference, double ours, double difference) {
    if (metrics_.changed++ == 0) {
      metrics_.first = {index, reference, ours};
    }
    if (difference > metrics_.max_abs) {
      metrics_.max_abs = difference;
      metrics_.worst = {index, reference, ours};
    }
  }

  Metrics metrics_;
  double difference_squares_ = 0;
  double reference_squares_ = 0;
};

// Visits `count` pairs: elements of `reference` from 0 or `reference_begin`, of `ours` from
// `ours_begin`; the collector is told the index in `ours`.
template <typename Value>
void collect(Collector& collector, const TensorView& reference, int64_t reference_begin,
             const TensorView& ours, int64_t ours_begin, int64_t count) {
  std::array<Value, kBlock> a;
  std::array<Value, kBlock> b;
  for (int64_t done = 0; done < count; done += kBlock) {
    const size_t n = static_cast<size_t>(std::min(kBlock, count - done));
    widen(reference, reference_begin + done, std::span(a).first(n));
    widen(ours, ours_begin + done, std::span(b).first(n));
    for (size_t i = 0; i < n; ++i) {
      collector.add(ours_begin + done + static_cast<int64_t>(i), a[i], b[i]);
    }
  }
}

void collect_pairs(Collector& collector, const TensorView& reference, int64_t reference_begin,
                   const TensorView& ours, int64_t ours_begin, int64_t count) {
  if (is_integer(reference.dtype) && is_integer(ours.dtype)) {
    collect<int64_t>(collector, reference, reference_begin, ours, ours_begin, count);
  } else {
    collect<double>(collector, reference, reference_begin, ours, ours_begin, count);
  }
}

void check_shapes(const Shape& reference, const Shape& ours) {
  if (reference != ours) {
    throw Error(ErrorCode::bad_request,
                str_cat("cannot compare shape ", shape_text(ours), " with reference shape ",
                        shape_text(reference), "; are both of the same request?"));
  }
}

struct GroupSums {
  double sum = 0;
  double abs_sum = 0;
};

GroupSums sum_range(const TensorView& view, int64_t begin, int64_t count) {
  std::array<double, kBlock> block;
  GroupSums sums;
  for (int64_t done = 0; done < count; done += kBlock) {
    const auto values = std::span(block).first(static_cast<size_t>(std::min(kBlock, count - done)));
    widen(view, begin + done, values);
    for (const double value : values) {
      sums.sum += value;
      sums.abs_sum += std::fabs(value);
    }
  }
  return sums;
}

double relative_error(double reference, double ours, double scale) {
  const double difference = std::fabs(ours - reference);
  if (difference == 0) {
    return 0;
  }
  const double relative = difference / scale;
  return std::isnan(relative) ? kInfinity : relative;
}

// Position on the grid: negative numbers below zero, both zeros at 0.
int64_t bf16_position(float x) {
  const int64_t bits = to_bf16(x).bits;
  return bits < 0x8000 ? bits : 0x8000 - bits;
}

}  // namespace

TapKind tap_kind(std::string_view name) {
  static const Globs kChoices("*.topk,*.indexer.candidates,*.dspark.tokens");
  static const Globs kExact(
      "ids,types,positions,rope_delta,*.pixels,*.grid,*.frames,*.frame_indices,*.engram.ids");
  if (kChoices.matches(name)) {
    return TapKind::choice;
  }
  return kExact.matches(name) ? TapKind::exact : TapKind::value;
}

std::string_view tap_kind_name(TapKind kind) {
  switch (kind) {
    case TapKind::exact:
      return "exact";
    case TapKind::choice:
      return "choice";
    case TapKind::value:
      return "value";
  }
  TESSERA_UNREACHABLE();
}

Metrics compare(const TensorView& reference, const TensorView& ours) {
  check_shapes(reference.shape, ours.shape);
  Collector collector;
  collect_pairs(collector, reference, 0, ours, 0, ours.elements());
  return collector.finish();
}

ExcerptMetrics compare_excerpt(const Excerpt& reference, const TensorView& ours) {
  check_shapes(reference.shape, ours.shape);
  const int64_t width = reference.width();
  Collector collector;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    collect_pairs(collector, reference.values, static_cast<int64_t>(i) * width, ours,
                  reference.rows[i] * width, width);
  }
  ExcerptMetrics out;
  out.rows = collector.finish();
  const std::vector<double> sums = to_doubles(reference.group_sum);
  const std::vector<double> abs_sums = to_doubles(reference.group_abs_sum);
  for (size_t g = 0; g < sums.size(); ++g) {
    const int64_t begin = static_cast<int64_t>(g) * reference.group_rows;
    const int64_t rows = std::min(reference.group_rows, reference.shape[0] - begin);
    const GroupSums found = sum_range(ours, begin * width, rows * width);
    out.group_sum_error =
        std::max(out.group_sum_error, relative_error(sums[g], found.sum, abs_sums[g]));
    out.group_abs_sum_error =
        std::max(out.group_abs_sum_error, relative_error(abs_sums[g], found.abs_sum, abs_sums[g]));
  }
  return out;
}

int64_t bf16_steps(float a, float b) { return std::abs(bf16_position(a) - bf16_position(b)); }

double bf16_step_at(double x) {
  constexpr int kSmallestExponent = -126;  // below it steps stay the same
  constexpr int kFractionBits = 7;
  return std::ldexp(1.0, std::max(std::ilogb(x), kSmallestExponent) - kFractionBits);
}

bool is_within(const Metrics& metrics, const Limit& limit) {
  return metrics.broken == 0 && metrics.relative_l2 <= limit.relative_l2 &&
         metrics.changed_share() <= limit.changed_share && metrics.max_abs <= limit.max_abs;
}

}  // namespace tessera::trace
