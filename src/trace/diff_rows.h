// The arithmetic of a comparison: rows of two tensors against each other. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/tensor.h"
#include "trace/diff.h"

namespace tessera::trace {

// Rows of a tensor: slices of the first dimension. A scalar is one row.
struct RowView {
  TensorView view;
  std::vector<int64_t> numbers;  // of the rows that `view` has; empty: all, from 0 on

  int64_t rows() const { return view.shape.rank() == 0 ? 1 : view.shape[0]; }
  int64_t width() const { return rows() == 0 ? 0 : view.elements() / rows(); }
  int64_t number(int64_t row) const {
    return numbers.empty() ? row : numbers[static_cast<size_t>(row)];
  }
};

// Fills everything but psnr. Rows of `ours` are the same rows; both have as many elements. Reads
// each tensor twice where they differ and keeps two numbers per row. `is_exact`: every change makes
// a row bad.
struct RowComparison {
  DiffMetrics metrics;
  std::optional<DiffElement> first;  // see TapDiff; unset when nothing changed
  bool is_over = false;              // outside the tolerance
};
RowComparison compare_rows(const RowView& reference, const RowView& ours, int mantissa_bits,
                           const Tolerance& tolerance, bool is_exact);

// Root mean square of a row's difference. A row's own size counts, but rows that nearly vanish are
// measured by the whole tensor: the root of squares / max(row's squares, 1 % of the mean).
double row_rms(double difference_squares, double reference_squares, int64_t width,
               double reference_rms);

// Lists of indices, one per row, compared as sets; negative indices are none. A mask is the list of
// its elements that are not 0.
struct PickComparison {
  int64_t changed_rows = 0;
  std::optional<DiffElement> first;  // the first row that differs: a pick of each side
  bool is_over = false;              // a swap that the noise of the scores does not explain
  std::string note;                  // about the first row that is over, else about the first swap
};
// `scores`: both sides' scores, rows as the lists' rows, or nullptr. A pick `a` of the reference
// that gave way to `b` is explained if the scores of both moved towards the swap and by no more
// than twice the row tolerance times the scores' size; no bias that both sides add to the scores
// can change that.
struct PickScores {
  RowView reference;
  RowView ours;
  Tolerance tolerance;
  bool is_forced = false;  // ours picked from the reference's scores
};
PickComparison compare_picks(const RowView& reference, const RowView& ours, bool is_mask,
                             const PickScores* scores);

}  // namespace tessera::trace
