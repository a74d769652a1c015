// Reads traces: safetensors files of taps, mapped and never copied.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "tensor/tensor.h"
#include "trace/dump_folder.h"
#include "trace/excerpt.h"
#include "trace/trace_info.h"

namespace tessera::trace {

// One trace with the overlays laid over it: where several files have a tensor, the last one counts.
class TraceFile {
 public:
  // "TRACE[,OVERLAY...]"; a comma that belongs to the name of one existing file is no separator.
  // Throws Error{bad_file} for a file that is no valid safetensors file or no trace, for an excerpt
  // that does not fit its metadata, and for an overlay of another model or with other calls.
  // A folder is read as dumps of another engine (dump_folder.h), named by the file `mapping`.
  explicit TraceFile(const std::string& paths, const std::string& mapping = "");

  const std::string& name() const { return name_; }  // as given
  // Metadata of the first file, replaced by what the overlays say. `overlay_of` is kept only when
  // the first file itself is an overlay that was opened alone.
  const TraceInfo& info() const { return info_; }
  const std::string* metadata_value(std::string_view key) const;

  // Tensors as stored, in file order; what only overlays have comes last.
  const std::vector<std::string_view>& names() const { return names_; }
  // The same as taps: the three tensors of an excerpt appear once, under the tap's name.
  const std::vector<std::string_view>& taps() const { return taps_; }

  // The stored tensor (bytes of the map, any alignment), or nothing.
  std::optional<TensorView> find(std::string_view name) const;
  // Gives the memory of a tensor's pages back; it can still be read.
  void release(std::string_view name) const;
  // The excerpt that stands for this tap, or nullptr.
  const Excerpt* find_excerpt(std::string_view tap) const;

  // The stored tensor; Error{bad_file} that names the file when it is missing.
  TensorView require(std::string_view name) const;
  // require(), widened. `integers` throws Error{bad_file} for a float tensor, `floats` for F64.
  std::vector<float> floats(std::string_view name) const;
  std::vector<double> doubles(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;

 private:
  void add(const std::string& path);
  void add_dumps(const std::string& folder, const std::string& mapping);
  void index_excerpts();

  std::string name_;
  std::vector<std::unique_ptr<io::SafetensorsFile>> files_;
  std::unique_ptr<DumpFolder> dumps_;
  TraceInfo info_;
  Metadata metadata_;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> taps_;
  std::map<std::string_view, TensorView> by_name_;
  std::map<std::string, Excerpt, std::less<>> excerpts_;
};

}  // namespace tessera::trace
