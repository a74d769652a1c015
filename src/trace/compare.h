// How far one tensor is from its reference. Shared by the comparing sink, tests and `diff`.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "tensor/tensor.h"
#include "trace/excerpt.h"

namespace tessera::trace {

// What a difference in a tap means.
enum class TapKind {
  exact,   // inputs and arithmetic on integers: ids, positions, grids, pixels, hash ids
  choice,  // discrete choices made from scores: top-k lists, candidate masks, draft tokens
  value,   // everything else
};
TapKind tap_kind(std::string_view name);
std::string_view tap_kind_name(TapKind kind);  // "exact", "choice", "value"

// One element, as index into the compared elements with both values.
struct ElementPair {
  int64_t index = -1;  // -1: none
  double reference = 0;
  double ours = 0;
};

// Sums in double, in element order. Values are equal when `==` says so, or when both are NaN.
struct Metrics {
  int64_t elements = 0;
  int64_t changed = 0;  // not equal
  int64_t broken = 0;   // not equal, and one of the two is NaN or infinite
  int64_t nan_ours = 0;
  int64_t nan_reference = 0;
  double max_abs = 0;          // infinite when anything is broken
  double relative_l2 = 0;      // |ours - reference| / |reference| over finite pairs, infinite when
                               // anything is broken or only the reference is all zero
  double reference_peak = 0;   // largest finite magnitude of the reference
  int64_t max_bf16_steps = 0;  // largest bf16_steps() of a pair not broken; 0 for integers
  ElementPair first;           // first element that is not equal
  ElementPair worst;           // element of max_abs

  double changed_share() const {
    return elements == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(elements);
  }
};

// Shapes must be equal, types may differ: two integer tensors are compared as int64, anything else
// as double. Throws Error{bad_request} for different shapes.
Metrics compare(const TensorView& reference, const TensorView& ours);

// Group sums of an excerpt, each error relative to the reference's sum of absolute values (infinite
// when a sum is not finite, or when only the reference is zero).
struct ExcerptMetrics {
  Metrics rows;  // indices count elements of the whole tap
  double group_sum_error = 0;
  double group_abs_sum_error = 0;
};
ExcerptMetrics compare_excerpt(const Excerpt& reference, const TensorView& ours);

// Distance on the grid of bf16 numbers after rounding both: 1 for neighbours, 0 also for -0 and 0.
// Neither may be NaN.
int64_t bf16_steps(float a, float b);
// Distance between neighbouring bf16 numbers at the magnitude of `x`; x is finite and not 0.
double bf16_step_at(double x);

// Largest differences allowed. A broken element (see Metrics) is over every limit.
struct Limit {
  double relative_l2 = std::numeric_limits<double>::infinity();
  double changed_share = 1;
  double max_abs = std::numeric_limits<double>::infinity();

  static constexpr Limit equal() { return {0, 0, 0}; }
};
bool is_within(const Metrics& metrics, const Limit& limit);

}  // namespace tessera::trace
