// The layout of the released DeepSeek-V4.1-Flash checkpoint without its values: every tensor with
// name, type, shape and shard, written as 48 sparse files that take almost no disk space.
// Source: checkpoint_v41 specification sections 2 and 5; numbers, not formulas of a config, so that
// the configuration and the binding rules are checked against something of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tessera::test {

constexpr int kReleasedShards = 48;

struct LayoutTensor {
  std::string name;
  DType dtype;
  Shape shape;
  int shard;  // 1 .. kReleasedShards

  int64_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
};

std::vector<LayoutTensor> released_tensors();

// NVIDIA's variant (section 9): the backbone's experts are NVFP4, everything else as released.
std::vector<LayoutTensor> nvfp4_tensors();
// The release with Engram tables of packed E2M1 (section 10.1).
std::vector<LayoutTensor> packed_engram_tensors();
// The release with every matrix and table in bf16.
std::vector<LayoutTensor> bf16_tensors();

std::string shard_name(int shard);  // "model-00001-of-00048.safetensors"

// Writes the shards that have tensors, and model.safetensors.index.json with their total size.
// Scalars are 1, everything else is a hole of zeros. Within a shard, tensors are ordered as the
// safetensors library does: wide types first, then names. Throws std::runtime_error when the file
// system refuses files of 100 GB.
void write_layout(const std::string& folder, std::vector<LayoutTensor> tensors);

}  // namespace tessera::test
