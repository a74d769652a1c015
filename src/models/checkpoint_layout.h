// The files of a checkpoint before they are written: which tensors lie where, and the headers and
// the index that say so. Every byte's place is known from names, types and shapes alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/stored_format.h"

namespace tessera {

struct CheckpointShard {
  std::string file_name;            // "model-00003-of-00048.safetensors"
  std::string header;               // the JSON, padded with blanks to a multiple of 8 bytes
  std::vector<TensorSpec> tensors;  // as they lie in the file
  int64_t data_bytes = 0;

  int64_t data_begin() const { return 8 + static_cast<int64_t>(header.size()); }
  int64_t file_bytes() const { return data_begin() + data_bytes; }
  // What a file begins with: the header's length and the header.
  std::string start() const;
};

struct CheckpointLayout {
  std::vector<CheckpointShard> shards;
  std::string index;  // model.safetensors.index.json
  int64_t tensors = 0;
  int64_t data_bytes = 0;

  int64_t file_bytes() const;  // of all files, the index included
};

// Orders the tensors of every shard as the safetensors library does, wide types first, then names:
// the packed weights of an expert lie side by side, and so do its scales. Fills in headers, sizes
// and the index. Throws Error{unsupported} when the bytes cannot be counted.
CheckpointLayout lay_out(std::vector<CheckpointShard> shards);

// "model-00003-of-00048.safetensors"
std::string shard_file_name(size_t number, size_t shards);

}  // namespace tessera
