#include "models/deepseek_v41/weights.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr MatrixUse kDense = MatrixUse::dense;
constexpr MatrixUse kProjection = MatrixUse::projection;

Linear with_bias(TensorBinder& b, const std::string& name, int64_t outputs, int64_t inputs) {
  Linear layer = b.matrix(name, outputs, inputs, kDense);
  layer.bias = b.raw(name + ".bias", DType::bf16, {outputs});
  return layer;
}

MixWeights bind_mix(TensorBinder& b, const std::string& prefix, const Config& c) {
  return {.fn = b.raw(prefix + "_fn", DType::f32, {c.hc_mixes(), c.hc_copies * c.hidden}),
          .base = b.raw(prefix + "_base", DType::f32, {c.hc_mixes()}),
          .scale = b.raw(prefix + "_scale", DType::f32, {3})};
}

// Rows g * o_rank .. of wo_a act on the heads of group g. Stored like a projection, used as a dense
// matrix: the input is not quantised.
std::vector<Linear> bind_output_groups(TensorBinder& b, const std::string& name, const Config& c) {
  const int64_t inputs = c.heads * c.head_dim / c.o_groups;
  const Linear whole = b.matrix(name, c.o_groups * c.o_rank, inputs, MatrixUse::output_groups);
  if (c.o_rank % rows_per_scale(whole.weight) != 0) {
    throw Error(ErrorCode::bad_file,
                str_cat(name, ".weight: tiles of ", rows_per_scale(whole.weight),
                        " rows do not fit the output groups of ", c.o_rank, " rows"));
  }
  std::vector<Linear> groups;
  for (int64_t g = 0; g < c.o_groups; ++g) {
    Linear group = whole;
    group.weight = rows_of(whole.weight, g * c.o_rank, c.o_rank);
    groups.push_back(group);
  }
  return groups;
}

AttentionWeights bind_attention(TensorBinder& b, const std::string& p, const Config& c) {
  AttentionWeights w;
  w.wq_a = b.matrix(p + "wq_a", c.q_rank, c.hidden, kProjection);
  w.q_norm = b.raw(p + "q_norm.weight", DType::bf16, {c.q_rank});
  w.wq_b = b.matrix(p + "wq_b", c.heads * c.head_dim, c.q_rank, kProjection);
  w.wkv = b.matrix(p + "wkv", c.head_dim, c.hidden, kProjection);
  w.kv_norm = b.raw(p + "kv_norm.weight", DType::bf16, {c.head_dim});
  w.wo_a = bind_output_groups(b, p + "wo_a", c);
  w.wo_b = b.matrix(p + "wo_b", c.hidden, c.o_groups * c.o_rank, kProjection);
  w.sink = b.raw(p + "attn_sink", DType::f32, {c.heads});
  return w;
}

void bind_sources(TensorBinder& b, const std::string& p, const Config& c, int64_t layer,
                  AttentionWeights& w) {
  if (c.is_kv_source(layer)) {
    CompressorWeights s;
    s.wkv = b.matrix(p + "compressor.wkv", c.head_dim, c.hidden, kDense);
    if (c.ratio(layer) > 1) {
      s.wgate = b.matrix(p + "compressor.wgate", c.head_dim, c.hidden, kDense);
    }
    s.norm = b.raw(p + "compressor.norm.weight", DType::bf16, {c.head_dim});
    s.wk = b.matrix(p + "indexer.wk", c.index_head_dim, c.head_dim, kDense);
    s.k_norm = b.raw(p + "indexer.k_norm.weight", DType::bf16, {c.index_head_dim});
    w.compressor = s;
  }
  if (c.is_index_source(layer)) {
    IndexerWeights s;
    s.wq_b = b.matrix(p + "indexer.wq_b", c.index_heads * c.index_head_dim, c.q_rank, kProjection);
    s.weights_proj = b.matrix(p + "indexer.weights_proj", c.index_heads, c.hidden, kDense);
    w.indexer = s;
  }
}

MoeWeights bind_moe(TensorBinder& b, const std::string& p, const Config& c, int64_t experts,
                    MatrixUse use) {
  MoeWeights w;
  w.gate = b.matrix(p + "gate", experts, c.hidden, kDense);
  w.bias = b.raw(p + "gate.bias", DType::f32, {experts});
  w.bias_vl = b.raw(p + "gate.bias_vl", DType::f32, {experts});
  w.experts.reserve(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e) {
    const std::string expert = str_cat(p, "experts.", e, ".");
    w.experts.push_back({.w1 = b.matrix(expert + "w1", c.ffn_dim, c.hidden, use),
                         .w3 = b.matrix(expert + "w3", c.ffn_dim, c.hidden, use),
                         .w2 = b.matrix(expert + "w2", c.hidden, c.ffn_dim, use)});
  }
  const std::string shared = p + "shared_experts.";
  w.shared = {.w1 = b.matrix(shared + "w1", c.ffn_dim, c.hidden, kProjection),
              .w3 = b.matrix(shared + "w3", c.ffn_dim, c.hidden, kProjection),
              .w2 = b.matrix(shared + "w2", c.hidden, c.ffn_dim, kProjection)};
  return w;
}

// What backbone layers and draft stages have in common.
LayerWeights bind_block(TensorBinder& b, const std::string& p, const Config& c, int64_t experts,
                        MatrixUse use) {
  LayerWeights w;
  w.attn_norm = b.raw(p + "attn_norm.weight", DType::bf16, {c.hidden});
  w.ffn_norm = b.raw(p + "ffn_norm.weight", DType::bf16, {c.hidden});
  w.attn_mix = bind_mix(b, p + "hc_attn", c);
  w.ffn_mix = bind_mix(b, p + "hc_ffn", c);
  w.attn = bind_attention(b, p + "attn.", c);
  w.ffn = bind_moe(b, p + "ffn.", c, experts, use);
  return w;
}

EngramWeights bind_engram(TensorBinder& b, const std::string& p, const Config& c, int64_t rows) {
  const EngramConfig& e = c.engram;
  EngramWeights w;
  w.table = b.engram_table(p + "embed", rows, e.head_dim);
  w.wkv = b.matrix(p + "wkv", (c.hc_copies + 1) * c.hidden, e.columns() * e.head_dim, kProjection);
  w.q_weight = b.raw(p + "q_weight", DType::bf16, {c.hc_copies, c.hidden});
  w.k_weight = b.raw(p + "k_weight", DType::bf16, {c.hc_copies, c.hidden});
  return w;
}

VisionWeights bind_vision(TensorBinder& b, const Config& c) {
  const VisionConfig& v = c.vision;
  VisionWeights w;
  w.patch_embed = with_bias(b, "vision.patch_embed.proj", v.hidden, v.patch_width());
  for (int64_t i = 0; i < v.layers; ++i) {
    const std::string p = str_cat("vision.blocks.", i, ".");
    w.blocks.push_back({.norm1 = b.raw(p + "norm1.weight", DType::bf16, {v.hidden}),
                        .norm2 = b.raw(p + "norm2.weight", DType::bf16, {v.hidden}),
                        .wqkv = with_bias(b, p + "attn.wqkv", 3 * v.hidden, v.hidden),
                        .wo = with_bias(b, p + "attn.wo", v.hidden, v.hidden),
                        .w1 = b.matrix(p + "mlp.w1", 2 * v.ffn_dim, v.hidden, kDense),
                        .w2 = b.matrix(p + "mlp.w2", v.hidden, v.ffn_dim, kDense)});
  }
  w.norm = b.raw("vision.norm.weight", DType::bf16, {v.hidden});
  w.aligner_w1 = with_bias(b, "aligner.w1", c.hidden, v.hidden * v.downsample * v.downsample);
  w.aligner_w2 = with_bias(b, "aligner.w2", c.hidden, c.hidden);
  w.image_start = b.raw("image_start", DType::bf16, {c.hidden});
  w.image_end = b.raw("image_end", DType::bf16, {c.hidden});
  w.image_newline = b.raw("image_newline", DType::bf16, {c.hidden});
  return w;
}

DsparkWeights bind_dspark(TensorBinder& b, const Config& c) {
  const DsparkConfig& d = c.dspark;
  DsparkWeights w;
  for (int64_t i = 0; i < d.stages; ++i) {
    w.stages.push_back(
        bind_block(b, str_cat("mtp.", i, "."), c, d.experts, MatrixUse::draft_expert));
  }
  const int64_t taps = static_cast<int64_t>(d.target_layers.size());
  const std::string last = str_cat("mtp.", d.stages - 1, ".");
  w.main_proj = b.matrix("mtp.0.main_proj", c.hidden, taps * c.hidden, kProjection);
  w.main_norm = b.raw("mtp.0.main_norm.weight", DType::bf16, {c.hidden});
  w.norm = b.raw(last + "norm.weight", DType::bf16, {c.hidden});
  w.markov_embed = b.raw(last + "markov_head.embed.weight", DType::bf16, {c.vocab, d.markov_rank});
  w.markov_head = b.matrix(last + "markov_head.head", c.vocab, d.markov_rank, kDense);
  w.confidence = b.matrix(last + "confidence_head.proj", 1, c.hidden + d.markov_rank, kDense);
  return w;
}

}  // namespace

Weights bind_weights(TensorBinder& b, const Config& c) {
  Weights w;
  w.embed = b.raw("embed.weight", DType::bf16, {c.vocab, c.hidden});
  w.head = b.matrix("head", c.vocab, c.hidden, kDense);
  w.norm = b.raw("norm.weight", DType::bf16, {c.hidden});
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string p = str_cat("layers.", layer, ".");
    LayerWeights block = bind_block(b, p, c, c.experts, MatrixUse::expert);
    bind_sources(b, p + "attn.", c, layer, block.attn);
    if (const int64_t index = c.engram_index(layer); index >= 0) {
      block.engram =
          bind_engram(b, p + "engram.", c, c.engram.table_rows[static_cast<size_t>(index)]);
    }
    w.layers.push_back(std::move(block));
  }
  if (c.vision.layers > 0) {
    w.vision = bind_vision(b, c);
  }
  if (c.dspark.stages > 0) {
    w.dspark = bind_dspark(b, c);
  }
  return w;
}

}  // namespace tessera::deepseek_v41
