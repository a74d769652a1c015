// Models that need no checkpoint: all weights in memory, by the rules of synthetic_values.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/synthetic_values.h"
#include "models/deepseek_v41/tensor_binder.h"
#include "models/deepseek_v41/weights.h"
#include "tensor/exec_context.h"

namespace tessera::deepseek_v41 {

// Owner of generated weights: everything that `config` calls for, with the names, types and shapes
// that its checkpoint would have. `ctx` is used while they are made.
class SyntheticWeights {
 public:
  SyntheticWeights(ExecContext& ctx, const Config& config, uint64_t seed = 1);

  const Weights& weights() const { return weights_; }
  int64_t bytes() const { return bytes_; }

 private:
  class Binder;

  std::vector<AlignedBuffer> memory_;
  int64_t bytes_ = 0;
  Weights weights_;
};

// What the tower and the forward pass compute with, but for the memories' addressing, which needs a
// tokenizer. `weights` outlives it.
Network synthetic_network(const Config& config, const SyntheticWeights& weights);

// The same model without picture, Engram and draft parts.
Config text_only(const Config& config);

// The tower, the aligner and the image vectors of the same model: no layer, no vocabulary.
Config tower_only(const Config& config);

// A text stack of `layers` layers of the same widths, without picture, Engram and draft parts:
// layer 0 is a kv and index source of ratio 2, as layer 2 of the release, the others read it.
struct TextExcerpt {
  int64_t layers = 1;
  int64_t experts = 384;  // per layer; at least the active ones
  int64_t vocab = 1024;
};
Config text_excerpt(const Config& config, const TextExcerpt& excerpt);

}  // namespace tessera::deepseek_v41
