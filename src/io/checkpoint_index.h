// The index of a checkpoint in several files (`model.safetensors.index.json`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::io {

struct CheckpointIndex {
  struct Tensor {
    std::string name;
    std::string shard;  // a plain file name: not empty, no folder in it
  };
  std::vector<Tensor> tensors;        // in file order; names are unique
  std::optional<int64_t> total_size;  // metadata.total_size: bytes of all tensors
};

// `name` stands at the start of every message. Throws Error{bad_file} for text that is not a JSON
// object with a `weight_map` object of strings, for a tensor named twice and for a shard that is no
// plain file name.
CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view name);

}  // namespace tessera::io
