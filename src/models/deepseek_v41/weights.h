// All tensors of a checkpoint, bound once by name with shape and dtype checked.
// Source: checkpoint_v41 specification 5; deepseek_v41 specification 1.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/tensor_binder.h"
#include "ops/engram/engram.h"
#include "ops/linear/linear.h"
#include "ops/moe/moe.h"

namespace tessera::deepseek_v41 {

// Raw pointers are mapped bytes of any alignment; the element type is in the comment.
struct CompressorWeights {
  Linear wkv;                       // [head_dim, hidden]
  Linear wgate;                     // the same; only for ratio > 1
  const std::byte* norm = nullptr;  // bf16 [head_dim]
  Linear wk;                        // [index_head_dim, head_dim]: index keys from latents
  const std::byte* k_norm = nullptr;
};

struct IndexerWeights {
  Linear wq_b;          // [index_heads * index_head_dim, q_rank]
  Linear weights_proj;  // [index_heads, hidden]
};

struct AttentionWeights {
  Linear wq_a, wq_b, wkv, wo_b;
  std::vector<Linear> wo_a;  // one [o_rank, heads * head_dim / o_groups] per group
  const std::byte* q_norm = nullptr;
  const std::byte* kv_norm = nullptr;
  const std::byte* sink = nullptr;              // f32 [heads]
  std::optional<CompressorWeights> compressor;  // kv sources
  std::optional<IndexerWeights> indexer;        // index sources
};

// One half-block's hyper-connection mixing.
struct MixWeights {
  const std::byte* fn = nullptr;     // f32 [hc_mixes, copies * hidden]
  const std::byte* base = nullptr;   // f32 [hc_mixes]
  const std::byte* scale = nullptr;  // f32 [3]
};

struct MoeWeights {
  Linear gate;                         // [experts, hidden]
  const std::byte* bias = nullptr;     // f32 [experts]
  const std::byte* bias_vl = nullptr;  // the same for image rows
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
};

struct EngramWeights {
  EngramTable table;                    // [rows, head_dim]
  Linear wkv;                           // [(copies + 1) * hidden, columns * head_dim]
  const std::byte* q_weight = nullptr;  // bf16 [copies, hidden]
  const std::byte* k_weight = nullptr;
};

struct LayerWeights {
  const std::byte* attn_norm = nullptr;  // bf16 [hidden]
  const std::byte* ffn_norm = nullptr;
  MixWeights attn_mix, ffn_mix;
  AttentionWeights attn;
  MoeWeights ffn;
  std::optional<EngramWeights> engram;
};

struct VisionBlockWeights {
  const std::byte* norm1 = nullptr;  // bf16 [hidden]
  const std::byte* norm2 = nullptr;
  Linear wqkv, wo, w1, w2;
};

struct VisionWeights {
  Linear patch_embed;
  std::vector<VisionBlockWeights> blocks;
  const std::byte* norm = nullptr;
  Linear aligner_w1, aligner_w2;
  const std::byte* image_start = nullptr;  // bf16 [text hidden]
  const std::byte* image_end = nullptr;
  const std::byte* image_newline = nullptr;
};

// Draft stages: bound and checked; not computed yet.
struct DsparkWeights {
  std::vector<LayerWeights> stages;
  Linear main_proj;
  const std::byte* main_norm = nullptr;
  const std::byte* norm = nullptr;
  const std::byte* markov_embed = nullptr;  // bf16 [vocab, markov_rank]
  Linear markov_head;
  Linear confidence;
};

struct Weights {
  const std::byte* embed = nullptr;  // bf16 [vocab, hidden]
  Linear head;                       // [vocab, hidden]
  const std::byte* norm = nullptr;   // bf16 [hidden]
  std::vector<LayerWeights> layers;
  VisionWeights vision;
  DsparkWeights dspark;
};

// Asks `binder` for every tensor that `config` calls for, in the order of the forward pass.
Weights bind_weights(TensorBinder& binder, const Config& config);

}  // namespace tessera::deepseek_v41
