#include "trace/excerpt.h"

#include <optional>
#include <string>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"

namespace tessera::trace {
namespace {

// The list of non-negative integers under `key`, or nothing.
std::optional<std::vector<int64_t>> read_list(const io::Json& object, std::string_view key) {
  const io::Json* list = object.find(key);
  if (list == nullptr || !list->is_array()) {
    return std::nullopt;
  }
  std::vector<int64_t> out;
  for (const io::Json& item : list->items()) {
    const int64_t value = item.as_int64().value_or(-1);
    if (value < 0) {
      return std::nullopt;
    }
    out.push_back(value);
  }
  return out;
}

std::optional<Shape> make_shape(const std::vector<int64_t>& dims) {
  if (dims.empty() || dims.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return std::nullopt;
  }
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    const std::optional<int64_t> product = checked_mul(elements, dim);
    if (!product) {
      return std::nullopt;
    }
    elements = *product;
  }
  return Shape(std::span<const int64_t>(dims));
}

// Whether `sums` is F64 [groups].
bool is_group_list(const TensorView& sums, int64_t groups) {
  return sums.dtype == DType::f64 && sums.shape == Shape{groups};
}

}  // namespace

Excerpt make_excerpt(std::string_view description, int64_t group_rows, const TensorView& values,
                     const TensorView& group_sum, const TensorView& group_abs_sum,
                     std::string_view tap, std::string_view file) {
  const std::string where = str_cat(file, ": excerpt '", tap, "': ");
  const auto fail = [&](std::string_view expected, std::string_view found) {
    throw Error(ErrorCode::bad_file, str_cat(where, "expected ", expected, ", found ", found,
                                             "; write the trace again"));
  };
  const io::Json json = io::parse_json(description, str_cat(file, ": metadata '", tap, "'"));
  const auto dims = read_list(json, "shape");
  const auto rows = read_list(json, "rows");
  const std::optional<Shape> shape = dims ? make_shape(*dims) : std::nullopt;
  if (!shape || !rows) {
    fail("metadata with lists 'shape' (1 to 6 sizes) and 'rows'", "something else");
  }
  Excerpt out{*shape, *rows, values, group_rows, group_sum, group_abs_sum};
  for (const int64_t row : out.rows) {
    if (row >= out.shape[0]) {
      fail(str_cat("row numbers below ", out.shape[0]), str_cat(row));
    }
  }
  const Shape expected{static_cast<int64_t>(out.rows.size()), out.width()};
  if (values.shape != expected) {
    fail(str_cat("rows of shape ", shape_text(expected)), shape_text(values.shape));
  }
  if (group_rows < 1) {
    fail("metadata 'group_rows' of at least 1", str_cat(group_rows));
  }
  const int64_t groups = out.shape[0] / group_rows + (out.shape[0] % group_rows != 0 ? 1 : 0);
  for (const TensorView& sums : {group_sum, group_abs_sum}) {
    if (!is_group_list(sums, groups)) {
      fail(str_cat("group sums F64 [", groups, "]"),
           str_cat(dtype_name(sums.dtype), " ", shape_text(sums.shape)));
    }
  }
  return out;
}

}  // namespace tessera::trace
