#include "trace/sinks.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "trace/convert.h"

namespace tessera::trace {
namespace {

DType stored_dtype(DType dtype, Storage storage) {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::i64:
    case DType::i32:
      return dtype;
    case DType::bf16:
    case DType::f16:
      return storage == Storage::compact ? dtype : DType::f32;
    case DType::u8:
      return storage == Storage::compact ? dtype : DType::i32;
    case DType::u32:
    case DType::u64:
      return DType::i64;
    default:
      return is_integer(dtype) ? DType::i32 : DType::f32;
  }
}

[[noreturn]] void fail_twice(std::string_view where, std::string_view name) {
  throw Error(ErrorCode::bad_request, str_cat(where, ": expected each tap once, found '", name,
                                              "' again; number the calls of a run (c0, c1, ...)"));
}

}  // namespace

Writer::Writer(const std::string& path, const WriterOptions& options)
    : path_(path),
      globs_(options.globs),
      storage_(options.storage),
      writer_(path, options.header_bytes) {}

bool Writer::tap(std::string_view name, const MutableTensorView& value) {
  if (wants(name)) {
    add(name, value);
  }
  return false;
}

void Writer::add(std::string_view name, const TensorView& value) {
  if (writer_.contains(name)) {
    fail_twice(path_, name);
  }
  const DType dtype = stored_dtype(value.dtype, storage_);
  if (dtype == value.dtype) {
    writer_.add(name, value);
    return;
  }
  const int64_t bytes = value.elements() * dtype_bytes(dtype);
  if (widened_.bytes() < bytes) {
    widened_ = AlignedBuffer();  // never both at once
    widened_ = AlignedBuffer(bytes);
  }
  const MutableTensorView widened{widened_.data(), dtype, value.shape};
  convert(value, widened, name);
  writer_.add(name, widened);
}

void Writer::set_info(const TraceInfo& info) {
  for (auto& [key, value] : trace_metadata(info)) {
    writer_.set_metadata(key, value);
  }
}

void Writer::set_metadata(std::string key, std::string value) {
  writer_.set_metadata(std::move(key), std::move(value));
}

void Writer::commit() { writer_.commit(); }

int64_t TapDifference::first_row() const {
  if (metrics.first.index < 0 || shape.rank() == 0) {
    return -1;
  }
  return metrics.first.index / (shape.elements() / shape[0]);
}

Comparer::Comparer(const TraceFile& reference, const ComparerOptions& options)
    : reference_(reference), globs_(options.globs), collect_extra_(options.collect_extra) {}

bool Comparer::has(std::string_view name) const {
  return reference_.find(name).has_value() || reference_.find_excerpt(name) != nullptr;
}

bool Comparer::wants(std::string_view name) {
  return globs_.matches(name) && (collect_extra_ || has(name));
}

bool Comparer::tap(std::string_view name, const MutableTensorView& value) {
  if (!wants(name)) {
    return false;
  }
  if (!seen_.emplace(name).second) {
    fail_twice(reference_.name(), name);
  }
  const std::optional<TensorView> whole = reference_.find(name);
  const Excerpt* excerpt = reference_.find_excerpt(name);
  if (!whole && excerpt == nullptr) {
    extra_.emplace_back(name);
    return false;
  }
  TapDifference difference;
  difference.name = name;
  difference.kind = tap_kind(name);
  difference.reference_shape = whole ? whole->shape : excerpt->shape;
  difference.shape = value.shape;
  if (difference.same_shape()) {
    if (whole) {
      difference.metrics = compare(*whole, value);
    } else {
      const ExcerptMetrics metrics = compare_excerpt(*excerpt, value);
      difference.metrics = metrics.rows;
      difference.group_sum_error = metrics.group_sum_error;
      difference.group_abs_sum_error = metrics.group_abs_sum_error;
    }
  }
  differences_.push_back(std::move(difference));
  return false;
}

const TapDifference* Comparer::find(std::string_view name) const {
  const auto place =
      std::find_if(differences_.begin(), differences_.end(),
                   [&](const TapDifference& difference) { return difference.name == name; });
  return place == differences_.end() ? nullptr : &*place;
}

std::vector<std::string_view> Comparer::missing() const {
  std::vector<std::string_view> out;
  for (const std::string_view tap : reference_.taps()) {
    if (globs_.matches(tap) && !seen_.contains(tap)) {
      out.push_back(tap);
    }
  }
  return out;
}

Forcer::Forcer(const TraceFile& reference, std::string_view globs)
    : reference_(reference), globs_(globs) {}

bool Forcer::wants(std::string_view name) {
  return globs_.matches(name) && reference_.find(name).has_value();
}

bool Forcer::tap(std::string_view name, const MutableTensorView& value) {
  if (!wants(name)) {
    return false;
  }
  const TensorView reference = *reference_.find(name);
  if (reference.shape != value.shape) {
    throw Error(ErrorCode::bad_file,
                str_cat(reference_.name(), ": tap '", name, "': expected shape ",
                        shape_text(value.shape), ", found ", shape_text(reference.shape),
                        "; force with a trace of the same request and model"));
  }
  convert(reference, value, str_cat(reference_.name(), ": tap '", name, "'"));
  ++forced_;
  return true;
}

bool Chain::wants(std::string_view name) {
  return std::any_of(sinks_.begin(), sinks_.end(),
                     [&](TraceSink* sink) { return sink->wants(name); });
}

bool Chain::tap(std::string_view name, const MutableTensorView& value) {
  bool has_written = false;
  for (TraceSink* sink : sinks_) {
    if (sink->wants(name) && sink->tap(name, value)) {
      has_written = true;
    }
  }
  return has_written;
}

}  // namespace tessera::trace
