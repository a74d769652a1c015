#include "trace/row_labels.h"

#include "base/str_cat.h"
#include "base/text.h"
#include "trace/convert.h"

namespace tessera::trace {
namespace {

// Types of positions (taps): -1 text, 0 start, 1 image, 2 line end, 3 end.
constexpr int64_t kText = -1;
constexpr int64_t kStart = 0;
constexpr int64_t kImage = 1;
constexpr int64_t kLineEnd = 2;

int64_t number_of(const StageMatch& match, const std::string& name) {
  const auto known = match.numbers.find(name);
  return known == match.numbers.end() ? -1 : known->second;
}

}  // namespace

RowLabels::RowLabels(const TraceFile& trace, std::function<std::string(int64_t id)> token_text)
    : tokens_(trace.info().tokens), calls_(trace.info().calls), token_text_(std::move(token_text)) {
  const auto integers = [&](std::string_view name) {
    const std::optional<TensorView> view = trace.find(name);
    return view.has_value() && is_integer(view->dtype) ? to_integers(*view)
                                                       : std::vector<int64_t>();
  };
  ids_ = integers("ids");
  types_ = integers("types");
  for (const std::string_view kind : {"image", "video"}) {
    for (int64_t i = 0;; ++i) {
      const std::string owner = str_cat(kind, i);
      const std::optional<PictureGrid> grid = picture_grid(trace, owner);
      if (!grid.has_value()) {
        break;
      }
      grids_[owner] = *grid;
    }
  }
}

std::string RowLabels::label(const StageMatch& match, int64_t row) const {
  const std::string& rows = match.stage->rows;
  const int64_t call = number_of(match, "k");
  if (rows == "patches" || rows == "cells") {
    const int64_t image = number_of(match, "i");
    const std::string owner =
        image >= 0 ? str_cat("image", image) : str_cat("video", number_of(match, "v"));
    return place(owner, row, rows == "cells");
  }
  if (rows == "lines") {
    return str_cat("line ", row);
  }
  if (rows == "groups") {
    return str_cat("group ", row, " of the call");
  }
  if (rows == "tokens" || rows == "last") {
    const bool is_last = rows == "last" && call >= 0 && static_cast<size_t>(call) < calls_.size();
    return token(call, is_last ? calls_[static_cast<size_t>(call)].rows - 1 : row);
  }
  return "";
}

std::string RowLabels::place(const std::string& owner, int64_t row, bool is_cell) const {
  const PictureGrid* own = grid(owner);
  if (own == nullptr) {
    return "";
  }
  const PictureGrid::Place at = is_cell ? own->cell(row) : own->patch(row);
  constexpr size_t kKind = 5;  // "image", "video"
  std::string text = str_cat(owner.substr(0, kKind), " ", owner.substr(kKind));
  if (owner.starts_with("video")) {
    text += str_cat(", frames ", 2 * at.frame, "-", 2 * at.frame + 1);
  }
  return str_cat(text, is_cell ? ", cell (" : ", patch (", at.row, ",", at.column, ")");
}

const PictureGrid* RowLabels::grid(const std::string& owner) const {
  const auto known = grids_.find(owner);
  return known == grids_.end() ? nullptr : &known->second;
}

std::string RowLabels::token(int64_t call, int64_t row) const {
  if (call < 0) {  // `ids` and `types` themselves
    return position(row);
  }
  if (static_cast<size_t>(call) >= calls_.size()) {
    return call == 0 ? position(row) : "";
  }
  const int64_t at = calls_[static_cast<size_t>(call)].start + row;
  if (at < static_cast<int64_t>(ids_.size())) {
    return position(at);
  }
  const bool is_known = call > 0 && static_cast<size_t>(call) <= tokens_.size();
  return is_known ? token_name(tokens_[static_cast<size_t>(call - 1)]) : str_cat("position ", at);
}

std::string RowLabels::position(int64_t position) const {
  const size_t at = static_cast<size_t>(position);
  if (position < 0 || at >= ids_.size()) {
    return "";
  }
  if (at >= types_.size() || types_[at] == kText) {
    return token_name(ids_[at]);
  }
  int64_t image = -1;
  size_t start = 0;
  for (size_t i = 0; i <= at; ++i) {
    if (types_[i] == kStart) {
      ++image;
      start = i;
    }
  }
  const PictureGrid* own = grid(str_cat("image", image));
  const int64_t inside = static_cast<int64_t>(at - start) - 1;
  if (types_[at] == kImage && own != nullptr && inside >= 0) {
    const int64_t stride = own->cell_columns + 1;
    return str_cat("image ", image, ", cell (", inside / stride, ",", inside % stride, ")");
  }
  return str_cat("image ", image,
                 types_[at] == kStart     ? ", start"
                 : types_[at] == kLineEnd ? ", line end"
                 : types_[at] == kImage   ? ", cell"
                                          : ", end");
}

std::string RowLabels::token_name(int64_t id) const {
  return token_text_ ? quoted(token_text_(id)) : str_cat("token ", id);
}

}  // namespace tessera::trace
