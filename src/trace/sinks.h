// What a trace can do with the taps of a run: write them, compare them with a reference, overwrite
// them with the reference's values. Sinks are used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "io/safetensors.h"
#include "tensor/trace.h"
#include "trace/compare.h"
#include "trace/globs.h"
#include "trace/reader.h"

namespace tessera::trace {

// How a Writer stores what is not I64, I32, F32 or F64; both forms are exact.
enum class Storage {
  wide,     // every float as F32, every other integer as I32 (U32 and U64 as I64)
  compact,  // BF16, F16 and U8 as they are; the rest as in `wide`
};

struct WriterOptions {
  std::string globs = "*";
  Storage storage = Storage::wide;
  int64_t header_bytes = int64_t{1} << 20;  // about 120 bytes per tap; see io::SafetensorsWriter
};

// Writes each wanted tap as it comes. Memory: one tap at a time. Without commit() no file appears.
class Writer : public TraceSink {
 public:
  explicit Writer(const std::string& path, const WriterOptions& options = {});

  bool wants(std::string_view name) override { return globs_.matches(name); }
  // Throws Error{bad_request} for a name that came before.
  bool tap(std::string_view name, const MutableTensorView& value) override;

  // For what is no tap of the model: the same, for read-only values and whatever `globs` says.
  void add(std::string_view name, const TensorView& value);
  void set_info(const TraceInfo& info);
  void set_metadata(std::string key, std::string value);
  void commit();

 private:
  std::string path_;
  Globs globs_;
  Storage storage_;
  io::SafetensorsWriter writer_;
  AlignedBuffer widened_;  // grows to the largest tap that is not stored as it is
};

// One compared tap.
struct TapDifference {
  std::string name;
  TapKind kind = TapKind::value;
  Shape reference_shape;
  Shape shape;      // ours
  Metrics metrics;  // all zero when the shapes differ; of the kept rows for an excerpt
  // Excerpts: see ExcerptMetrics.
  std::optional<double> group_sum_error;
  std::optional<double> group_abs_sum_error;

  bool same_shape() const { return reference_shape == shape; }
  // Row of the first dimension that holds metrics.first, -1 if none.
  int64_t first_row() const;
};

struct ComparerOptions {
  std::string globs = "*";     // taps to compare; others count neither as missing nor as extra
  bool collect_extra = false;  // ask for all taps and keep the names that the reference lacks
};

// Compares every tap that the reference has; never writes. The reference outlives it.
class Comparer : public TraceSink {
 public:
  explicit Comparer(const TraceFile& reference, const ComparerOptions& options = {});

  bool wants(std::string_view name) override;
  // Throws Error{bad_request} for a name that came before.
  bool tap(std::string_view name, const MutableTensorView& value) override;

  const std::vector<TapDifference>& differences() const { return differences_; }  // as they came
  const TapDifference* find(std::string_view name) const;
  std::vector<std::string_view> missing() const;  // taps of the reference that never came
  const std::vector<std::string>& extra() const { return extra_; }

 private:
  bool has(std::string_view name) const;

  const TraceFile& reference_;
  Globs globs_;
  bool collect_extra_;
  std::vector<TapDifference> differences_;
  std::vector<std::string> extra_;
  std::set<std::string, std::less<>> seen_;
};

// Overwrites taps with the reference's values: teacher forcing, pinned choices. Taps that the
// reference lacks, or has only as an excerpt, stay as they are. The reference outlives it.
class Forcer : public TraceSink {
 public:
  Forcer(const TraceFile& reference, std::string_view globs);

  bool wants(std::string_view name) override;
  // Converts to the view's type as convert() does. Throws Error{bad_file} when the shapes differ or
  // the type cannot hold a value. Returns whether it wrote.
  bool tap(std::string_view name, const MutableTensorView& value) override;

  int64_t forced() const { return forced_; }  // taps overwritten so far

 private:
  const TraceFile& reference_;
  Globs globs_;
  int64_t forced_ = 0;
};

// Passes each tap to several sinks in order, each seeing what the ones before it wrote: a Comparer
// before a Forcer judges every operation on the reference's inputs. The sinks outlive it.
class Chain : public TraceSink {
 public:
  explicit Chain(std::vector<TraceSink*> sinks) : sinks_(std::move(sinks)) {}

  bool wants(std::string_view name) override;
  bool tap(std::string_view name, const MutableTensorView& value) override;

 private:
  std::vector<TraceSink*> sinks_;
};

}  // namespace tessera::trace
