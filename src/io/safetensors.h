// safetensors: one file, or a folder's index with shards. Files are mapped, never copied; headers
// are validated before anything points into them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "tensor/tensor.h"

namespace tessera::io {

// One tensor of a header.
struct TensorEntry {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t begin = 0;  // bytes from the start of the file
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;                           // in order of `begin`
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__, in file order
};

// Reads and validates the header of a file of `file_bytes` bytes, of which `bytes` is a prefix that
// holds the whole header. Throws Error{bad_file} naming `name` for: a length field beyond the file
// or above 256 MiB, JSON that is not an object of objects, a duplicate tensor, an unknown dtype, a
// shape with a negative or overflowing product or more than six dimensions, offsets that leave the
// data area, overlap, leave a gap, or do not have exactly shape x dtype bytes.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, int64_t file_bytes,
                                           std::string_view name);

// One mapped file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const {
    return header_.metadata;
  }
  const std::string* metadata_value(std::string_view key) const;
  // The tensor's bytes in the map (any alignment), or nothing.
  const TensorEntry* find(std::string_view name) const;
  TensorView view(const TensorEntry& entry) const;
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> by_name_;
};

// All weights of a checkpoint folder: `model.safetensors.index.json` with its shards if there is
// one, else the single `*.safetensors` file. Shard names must be plain file names. Opens each shard
// once; a tensor that the index places in a shard that lacks it, a tensor of a shard that the index
// does not name, a duplicate, or a `metadata.total_size` that differs is an Error{bad_file} (all
// findings in one message, at most 20 names spelled out). Missing shards, Git LFS pointer files and
// `.incomplete` downloads are named as such.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }  // by name
  int64_t tensor_count() const { return static_cast<int64_t>(by_name_.size()); }
  int64_t total_bytes() const { return total_bytes_; }
  const TensorEntry* find(std::string_view name) const;
  TensorView view(std::string_view name) const;  // TESSERA_CHECKs that it exists
  // Of the shard that holds an existing tensor, without the folder.
  std::string file_name(std::string_view name) const;
  // Names in sorted order.
  std::vector<std::string_view> names() const;

 private:
  struct Place {
    size_t file;
    size_t tensor;
  };
  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, Place> by_name_;
  int64_t total_bytes_ = 0;
};

// Writes a safetensors file whose tensors are not all known at the start: data goes to the
// temporary file as it comes, the header is written by commit() into space reserved in front
// (padded with blanks; 8-byte aligned data). Throws Error{io} when the disk is full and
// Error{bad_request} for a name that is taken, "__metadata__", or text that is not UTF-8.
class SafetensorsWriter {
 public:
  // `header_bytes`: space to reserve; commit() throws Error{bad_request} if the header needs more.
  explicit SafetensorsWriter(const std::string& path, int64_t header_bytes = int64_t{1} << 20);

  void add(std::string_view name, const TensorView& tensor);
  void set_metadata(std::string key, std::string value);
  bool contains(std::string_view name) const;
  void commit();

 private:
  OutputFile file_;
  int64_t header_bytes_;
  int64_t data_bytes_ = 0;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace tessera::io
