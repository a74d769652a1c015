// A checkpoint rewritten with its matrices in other formats. Whatever the release keeps in bf16 or
// F32 (tower, aligner, norms, router, compressor, embedding, heads) is copied byte for byte, and so
// is every matrix that already has the wanted format.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/checkpoint_layout.h"
#include "models/deepseek_v41/checkpoint_binder.h"

namespace tessera::deepseek_v41 {

struct ConversionTarget {
  std::string name;
  MatrixFormat projections, experts, draft_experts;
  StoredFormat engram_tables = StoredFormat::fp8_e8m0;
};

//   bf16    every matrix and table
//   fp8     experts like the projections, FP8 with tiles of 32 x 32, as the reference's converter
//           makes them
//   mxfp4   the release
//   nvfp4   NVIDIA's variant: the release with NVFP4 experts, drafts left alone
// Nothing for any other name.
std::optional<ConversionTarget> conversion_target(std::string_view name);

// config.json (nested dialect) with the quantization_config that declares `target`. Throws
// Error{unsupported} for the flat dialect.
io::Json converted_config(const io::Json& config, const ConversionTarget& target);

// By matrix name ("layers.0.ffn.experts.3.w1"): NVFP4's input scale.
using InputScales = std::map<std::string, float, std::less<>>;

struct ConversionSums {
  int64_t copied_tensors = 0;
  int64_t cast_matrices = 0;     // MXFP4 to NVFP4 without loss
  int64_t rounded_matrices = 0;  // to the nearest values of the format
};

class Conversion {
 public:
  // Plans every tensor. The checkpoint outlives the conversion. Throws what binding throws, and
  // Error{bad_request} where NVFP4 has no input scale for a matrix.
  Conversion(const io::Checkpoint& from, const Config& config, const ConversionTarget& target,
             const InputScales& input_scales);

  // One file for each file of the source, under the same name.
  const CheckpointLayout& layout() const { return layout_; }

  // Writes one file of layout().shards. Peak memory: the largest matrix in its new format.
  // `on_progress` hears the bytes that were written since its last call; it may throw.
  void write_shard(ThreadPool& threads, size_t shard, const std::string& folder,
                   const std::function<void(int64_t bytes)>& on_progress);

  const ConversionSums& sums() const { return sums_; }  // of the shards written so far

 private:
  struct Item {  // a tensor to copy, a matrix or a table
    std::string name;
    Linear source = {};                       // of a matrix
    std::optional<EngramTable> table = {};    // of a table
    std::optional<MatrixFormat> format = {};  // to round to; nothing: `tensors` are copied
    std::vector<TensorSpec> tensors = {};     // as they are written
    float input_scale = 1;
  };
  class Planner;
  class ShardWriter;

  const io::Checkpoint& from_;
  std::vector<std::vector<Item>> items_;  // by shard
  CheckpointLayout layout_;
  ConversionSums sums_;
};

}  // namespace tessera::deepseek_v41
