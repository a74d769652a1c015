// Rows of a tap on both sides, and how far each is off, for the page. Internal to the module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "trace/convert.h"
#include "trace/diff_html_panels.h"
#include "trace/reader.h"

namespace tessera::trace {

// Both sides' rows: row `i` of the kept ones is row `numbers[i]` of the tap.
struct RowPairs {
  TensorView reference, ours;
  std::vector<int64_t> numbers;  // empty: all rows are kept
  bool is_ours_whole = false;    // `ours` has all rows though the reference keeps some
  Shape shape;                   // of the whole tap
  int64_t rows = 0, kept = 0, width = 0;

  int64_t number(int64_t i) const { return numbers.empty() ? i : numbers[static_cast<size_t>(i)]; }
  int64_t reference_begin(int64_t i) const { return i * width; }
  int64_t ours_begin(int64_t i) const { return (is_ours_whole ? number(i) : i) * width; }
  bool has_equal_bytes(int64_t i) const;
};

// Nothing unless both traces have the same rows, at least one, of the same shape.
std::optional<RowPairs> row_pairs(std::string_view tap, const TraceFile& reference,
                                  const TraceFile& ours);

constexpr int64_t kRowBlock = 4096;  // elements that are widened at once

// Calls body(reference, ours, count) with the elements of a row, widened block by block.
void for_row(const RowPairs& pairs, int64_t i, const auto& body) {
  double r[kRowBlock], o[kRowBlock];
  for (int64_t done = 0; done < pairs.width; done += kRowBlock) {
    const size_t count = static_cast<size_t>(std::min(kRowBlock, pairs.width - done));
    widen(pairs.reference, pairs.reference_begin(i) + done, std::span(r, count));
    widen(pairs.ours, pairs.ours_begin(i) + done, std::span(o, count));
    body(r, o, static_cast<int64_t>(count));
  }
}

// The same number, or NaN on both sides.
bool is_equal_element(double reference, double ours);

// The size of a row's difference: row_rms(), or in levels of a pixel; counts into the histogram.
double measure_values(const RowPairs& pairs, int64_t i, double reference_rms, RowMeasure measure,
                      Histogram& histogram);
// Share of a row's elements that differ.
double measure_integers(const RowPairs& pairs, int64_t i);
// Share of a row's picks that the other side does not have.
double measure_picks(const RowPairs& pairs, int64_t i, bool is_mask);

}  // namespace tessera::trace
