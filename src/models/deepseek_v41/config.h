// Configuration of a DeepSeek-V4.1 checkpoint: config.json in the nested (Hugging Face) or the flat
// (native) dialect. Source: deepseek_v41 specification 1; the names here are the project's
// vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "models/quantization.h"
#include "ops/rope/rope.h"

namespace tessera::deepseek_v41 {

struct VisionConfig {
  int64_t layers = 0;  // 0: the checkpoint has no vision tower
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t ffn_dim = 0;
  int64_t patch_px = 0;
  int64_t downsample = 0;  // cells per token side
  int64_t max_tokens = 0;  // of a whole span, delimiters included
  int64_t min_pixels = 0;
  std::optional<int64_t> max_wh_ratio;
  double rope_theta = 0;

  int64_t head_dim() const { return hidden / heads; }
  int64_t patch_width() const { return 3 * patch_px * patch_px; }
  int64_t most_patches() const { return max_tokens * downsample * downsample; }  // of a picture
};

struct EngramConfig {
  std::vector<int64_t> layers;      // layer ids with a memory
  std::vector<int64_t> table_rows;  // of each of them
  int64_t max_ngram = 0;
  int64_t vocab_size = 0;  // where the search for primes starts
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t pad_token = 0;  // raw token id
  int64_t classes = 0;    // size of the compressed id space

  int64_t columns() const { return (max_ngram - 1) * heads; }
};

struct DsparkConfig {
  int64_t stages = 0;  // 0: no draft stages
  int64_t block_size = 0;
  int64_t noise_token = 0;
  std::vector<int64_t> target_layers;
  int64_t markov_rank = 0;
  int64_t experts = 0;
  int64_t active_experts = 0;
};

struct Config {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // last elements of a head that rotate
  int64_t q_rank = 0;
  int64_t o_rank = 0;
  int64_t o_groups = 0;
  int64_t window = 0;
  double norm_eps = 0;

  int64_t ffn_dim = 0;
  int64_t experts = 0;
  int64_t active_experts = 0;
  double route_scale = 0;
  double gate_temperature = 1;
  bool normalise_top_k = true;
  double swiglu_limit = 0;

  std::vector<int64_t> compress_ratios;  // [layers]: 0 = window only
  std::vector<int64_t> kv_sources;       // layers that own compressed entries and index keys
  std::vector<int64_t> index_sources;    // layers that own index queries
  int64_t index_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_top_k = 0;
  int64_t candidate_source = -1;  // layer that publishes candidate blocks; negative: none
  int64_t candidate_blocks = 0;
  int64_t candidate_block_size = 0;

  double rope_theta = 0;           // layers of ratio 0
  double compress_rope_theta = 0;  // all other layers, with YaRN
  YarnScaling yarn;

  int64_t hc_copies = 0;
  int64_t hc_iterations = 0;
  double hc_eps = 0;

  EngramConfig engram;
  DsparkConfig dspark;
  VisionConfig vision;

  int64_t bos_token = 0;
  int64_t eos_token = 1;
  int64_t image_token = 0;
  int64_t max_positions = 0;  // 0: not stated
  Quantization quantization;  // what config.json declares

  int64_t ratio(int64_t layer) const { return compress_ratios[static_cast<size_t>(layer)]; }
  // Index into kv_sources of the entries that a layer of ratio > 0 reads: the largest source <=
  // layer.
  int64_t kv_source_of(int64_t layer) const;
  // Layer whose index list a layer of ratio > 0 uses: the largest index source <= layer.
  int64_t index_source_of(int64_t layer) const;
  bool is_kv_source(int64_t layer) const;
  bool is_index_source(int64_t layer) const;
  // Position in engram.layers, or -1.
  int64_t engram_index(int64_t layer) const;
  int64_t hc_mixes() const { return (2 + hc_copies) * hc_copies; }
};

// Throws Error{bad_file} that names the key for anything missing, of the wrong type or
// contradictory, and Error{unsupported} for a valid configuration that this engine does not know.
// Unknown keys are returned in `unread` when it is given.
Config parse_config(const io::Json& json, const std::string& name,
                    std::vector<std::string>* unread = nullptr);
Config read_config(const std::string& path);

}  // namespace tessera::deepseek_v41
