// A tap of which a trace keeps some rows and sums over groups of rows instead of everything:
// tensors `T.rows`, `T.group_sum`, `T.group_abs_sum` and the metadata entry `T`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::trace {

// Borrows the tensors of the file. A row is everything behind the first dimension.
struct Excerpt {
  Shape shape;                // of the whole tap, rank at least 1
  std::vector<int64_t> rows;  // row numbers of `values`
  TensorView values;          // [rows.size(), width], any float or integer type
  int64_t group_rows = 0;     // group g: rows group_rows * g .. group_rows * (g + 1) - 1; the last
                              // one may be short
  TensorView group_sum;       // F64 [ceil(shape[0] / group_rows)], sums of all elements
  TensorView group_abs_sum;   // the same of the absolute values

  int64_t width() const { return shape[0] == 0 ? 0 : shape.elements() / shape[0]; }
};

// `description`: JSON {"shape": [...], "rows": [...]} of tap `tap`. Throws Error{bad_file} that
// begins with `file` when description and tensors do not fit together.
Excerpt make_excerpt(std::string_view description, int64_t group_rows, const TensorView& values,
                     const TensorView& group_sum, const TensorView& group_abs_sum,
                     std::string_view tap, std::string_view file);

}  // namespace tessera::trace
