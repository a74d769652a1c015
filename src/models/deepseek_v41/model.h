// A loaded DeepSeek-V4.1 checkpoint: constant after load, shared by everything that computes with
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "models/deepseek_v41/checkpoint_binder.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/weights.h"
#include "ops/engram/engram.h"
#include "ops/indexer/indexer.h"
#include "tokenizer/tokenizer.h"

namespace tessera::deepseek_v41 {

// Switches that change results; the defaults are ours (docs/numerics.md).
struct Parity {
  bool reference_index_slot =
      false;  // decode scores open groups against the shared slot (spec. 7.8)
  IndexScoreRounding index_scores = IndexScoreRounding::bf16;
  Nvfp4Activations nvfp4_activations = Nvfp4Activations::calibrated;
};

// What the forward pass computes with. Weights borrow memory that somebody else owns: a Model's
// checkpoint, or a test's buffers.
struct Network {
  Config config;
  Parity parity;
  Weights weights;
  std::vector<int32_t> token_classes;         // [vocab] compressed ids; empty without Engram
  std::vector<EngramAddressing> memories;     // one per Engram layer
  std::vector<float> window_frequencies;      // rotary table of ratio-0 layers
  std::vector<float> compressed_frequencies;  // of all other layers (YaRN)
};

struct ModelTokenizer {
  Tokenizer tokenizer;
  std::vector<int32_t> classes;  // Network::token_classes
};
// Throws Error{bad_file} for a tokenizer.json that does not go with `config`.
ModelTokenizer load_tokenizer(const std::string& path, const Config& config);

struct Model {
  // Opens DIR/config.json, tokenizer.json and the weights. Throws Error{bad_file} for anything
  // missing or contradictory. Maps files; copies nothing.
  static std::unique_ptr<const Model> load(const std::string& folder, const Parity& parity);

  io::Checkpoint checkpoint;
  Tokenizer tokenizer;
  Network network;
};

}  // namespace tessera::deepseek_v41
