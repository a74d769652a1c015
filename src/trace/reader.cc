#include "trace/reader.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "trace/convert.h"

namespace tessera::trace {
namespace {

constexpr std::string_view kRows = ".rows";
constexpr std::string_view kGroupSum = ".group_sum";
constexpr std::string_view kGroupAbsSum = ".group_abs_sum";

std::vector<std::string> split_paths(const std::string& paths) {
  std::error_code ignored;
  if (paths.find(',') == std::string::npos || std::filesystem::is_regular_file(paths, ignored)) {
    return {paths};
  }
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin <= paths.size()) {
    const size_t end = std::min(paths.find(',', begin), paths.size());
    out.push_back(paths.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Replaces what `over` says.
void lay_over(TraceInfo& base, TraceInfo over) {
  const auto take = [](auto& to, auto& from) {
    if (!from.empty()) {
      to = std::move(from);
    }
  };
  take(base.producer, over.producer);
  take(base.model, over.model);
  take(base.calls, over.calls);
  take(base.tokens, over.tokens);
  take(base.activations, over.activations);
  take(base.index_keys, over.index_keys);
  if (!over.request.is_null()) {
    base.request = std::move(over.request);
  }
  base.overlay_of.clear();
}

void lay_over(Metadata& base, const Metadata& over) {
  for (const auto& [key, value] : over) {
    const auto place = std::find_if(base.begin(), base.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (place == base.end()) {
      base.emplace_back(key, value);
    } else {
      place->second = value;
    }
  }
}

void check_overlay(const TraceInfo& base, const TraceInfo& over, const std::string& path) {
  if (!base.model.empty() && !over.model.empty() && base.model != over.model) {
    throw Error(
        ErrorCode::bad_file,
        str_cat(path, ": expected an overlay of model ", base.model, ", found model ", over.model,
                "; lay it over ", over.overlay_of.empty() ? "its own trace" : over.overlay_of));
  }
  if (!base.calls.empty() && !over.calls.empty() && base.calls != over.calls) {
    throw Error(ErrorCode::bad_file,
                str_cat(path, ": expected an overlay with the same ", base.calls.size(),
                        " calls, found ", over.calls.size(), " calls with other rows; lay it over ",
                        over.overlay_of.empty() ? "its own trace" : over.overlay_of));
  }
}

}  // namespace

TraceFile::TraceFile(const std::string& paths, const std::string& mapping) : name_(paths) {
  std::error_code ignored;
  if (std::filesystem::is_directory(paths, ignored)) {
    add_dumps(paths, mapping);
    return;
  }
  if (!mapping.empty()) {
    throw Error(ErrorCode::bad_request,
                str_cat(paths, ": a mapping names the files of a folder, and this is none"));
  }
  for (const std::string& path : split_paths(paths)) {
    add(path);
  }
  index_excerpts();
}

void TraceFile::add(const std::string& path) {
  if (path.empty()) {
    throw Error(ErrorCode::bad_request,
                str_cat("trace '", name_, "': expected TRACE[,OVERLAY...], found an empty name"));
  }
  const io::SafetensorsFile& file =
      *files_.emplace_back(std::make_unique<io::SafetensorsFile>(path));
  TraceInfo info = parse_trace_info(file.metadata(), path);
  if (files_.size() == 1) {
    info_ = std::move(info);
    metadata_ = file.metadata();
  } else {
    check_overlay(info_, info, path);
    lay_over(info_, std::move(info));
    lay_over(metadata_, file.metadata());
  }
  for (const io::TensorEntry& entry : file.tensors()) {
    const auto [place, is_new] = by_name_.insert_or_assign(entry.name, file.view(entry));
    if (is_new) {
      names_.push_back(place->first);
    }
  }
}

void TraceFile::add_dumps(const std::string& folder, const std::string& mapping) {
  dumps_ = std::make_unique<DumpFolder>(folder, mapping);
  for (const DumpedTensor& tensor : dumps_->tensors()) {
    by_name_.emplace(tensor.tap, tensor.view);
    names_.push_back(tensor.tap);
    taps_.push_back(tensor.tap);
  }
}

void TraceFile::index_excerpts() {
  const std::string* text = metadata_value("group_rows");
  int64_t group_rows = 0;
  if (text != nullptr && !parse_number(*text, group_rows)) {
    group_rows = 0;
  }
  std::set<std::string_view> parts;
  for (const std::string_view name : names_) {
    if (!name.ends_with(kRows)) {
      continue;
    }
    const std::string tap(name.substr(0, name.size() - kRows.size()));
    const std::string* description = metadata_value(tap);
    if (description == nullptr) {
      continue;  // a tap whose own name ends like this
    }
    const std::string sum = tap + std::string(kGroupSum);
    const std::string abs_sum = tap + std::string(kGroupAbsSum);
    Excerpt excerpt = make_excerpt(*description, group_rows, require(name), require(sum),
                                   require(abs_sum), tap, name_);
    parts.insert(name);
    parts.insert(by_name_.find(sum)->first);
    parts.insert(by_name_.find(abs_sum)->first);
    if (!by_name_.contains(tap)) {  // the whole tensor says more
      excerpts_.emplace(tap, std::move(excerpt));
    }
  }
  for (const std::string_view name : names_) {
    if (!parts.contains(name)) {
      taps_.push_back(name);
    } else if (name.ends_with(kRows)) {
      const auto excerpt = excerpts_.find(name.substr(0, name.size() - kRows.size()));
      if (excerpt != excerpts_.end()) {
        taps_.push_back(excerpt->first);
      }
    }
  }
}

const std::string* TraceFile::metadata_value(std::string_view key) const {
  for (const auto& [name, value] : metadata_) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

std::optional<TensorView> TraceFile::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? std::nullopt : std::optional(place->second);
}

void TraceFile::release(std::string_view name) const {
  const std::optional<TensorView> view = find(name);
  if (view.has_value() && dumps_ == nullptr) {  // dumps may be converted copies
    release_pages({view->data, static_cast<size_t>(view->bytes())});
  }
}

const Excerpt* TraceFile::find_excerpt(std::string_view tap) const {
  const auto place = excerpts_.find(tap);
  return place == excerpts_.end() ? nullptr : &place->second;
}

TensorView TraceFile::require(std::string_view name) const {
  const std::optional<TensorView> view = find(name);
  if (!view) {
    throw Error(ErrorCode::bad_file,
                str_cat(name_, ": expected a tensor '", name, "', found none among ", names_.size(),
                        "; was it traced with --taps?"));
  }
  return *view;
}

std::vector<float> TraceFile::floats(std::string_view name) const {
  const TensorView view = require(name);
  if (view.dtype == DType::f64) {
    throw Error(ErrorCode::bad_file, str_cat(name_, ": tensor '", name,
                                             "': expected values that float holds, found F64"));
  }
  return to_floats(view);
}

std::vector<double> TraceFile::doubles(std::string_view name) const {
  return to_doubles(require(name));
}

std::vector<int64_t> TraceFile::integers(std::string_view name) const {
  const TensorView view = require(name);
  if (!is_integer(view.dtype)) {
    throw Error(
        ErrorCode::bad_file,
        str_cat(name_, ": tensor '", name, "': expected integers, found ", dtype_name(view.dtype)));
  }
  return to_integers(view);
}

}  // namespace tessera::trace
