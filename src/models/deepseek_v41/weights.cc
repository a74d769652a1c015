#include "models/deepseek_v41/weights.h"

#include "base/str_cat.h"
#include "models/deepseek_v41/tensor_binder.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr InputRule kQuantised = InputRule::e4m3_32;

MixWeights bind_mix(TensorBinder& b, const std::string& prefix, const Config& c) {
  return {.fn = b.raw(prefix + "_fn", DType::f32, {c.hc_mixes(), c.hc_copies * c.hidden}),
          .base = b.raw(prefix + "_base", DType::f32, {c.hc_mixes()}),
          .scale = b.raw(prefix + "_scale", DType::f32, {3})};
}

// Rows g * o_rank .. of wo_a act on the heads of group g. Stored FP8, used as a dense matrix: the
// input is not quantised.
std::vector<Linear> bind_output_groups(TensorBinder& b, const std::string& name, const Config& c) {
  const int64_t inputs = c.heads * c.head_dim / c.o_groups;
  const Linear whole = b.fp8(name, c.o_groups * c.o_rank, inputs, InputRule::none);
  const WeightFp8Block& all = std::get<WeightFp8Block>(whole.weight.format);
  std::vector<Linear> groups;
  for (int64_t g = 0; g < c.o_groups && all.codes != nullptr && all.scales != nullptr; ++g) {
    const int64_t row = g * c.o_rank;
    const int64_t scale_row_bytes = (inputs + all.block - 1) / all.block;
    Linear group;
    group.weight = {WeightFp8Block{all.codes + row * inputs,
                                   all.scales + row / all.block * scale_row_bytes, all.block},
                    c.o_rank, inputs};
    groups.push_back(group);
  }
  return groups;
}

AttentionWeights bind_attention(TensorBinder& b, const std::string& p, const Config& c) {
  AttentionWeights w;
  w.wq_a = b.fp8(p + "wq_a", c.q_rank, c.hidden, kQuantised);
  w.q_norm = b.raw(p + "q_norm.weight", DType::bf16, {c.q_rank});
  w.wq_b = b.fp8(p + "wq_b", c.heads * c.head_dim, c.q_rank, kQuantised);
  w.wkv = b.fp8(p + "wkv", c.head_dim, c.hidden, kQuantised);
  w.kv_norm = b.raw(p + "kv_norm.weight", DType::bf16, {c.head_dim});
  w.wo_a = bind_output_groups(b, p + "wo_a", c);
  w.wo_b = b.fp8(p + "wo_b", c.hidden, c.o_groups * c.o_rank, kQuantised);
  w.sink = b.raw(p + "attn_sink", DType::f32, {c.heads});
  return w;
}

void bind_sources(TensorBinder& b, const std::string& p, const Config& c, int64_t layer,
                  AttentionWeights& w) {
  if (c.is_kv_source(layer)) {
    CompressorWeights s;
    s.wkv = b.dense(p + "compressor.wkv", c.head_dim, c.hidden);
    if (c.ratio(layer) > 1) {
      s.wgate = b.dense(p + "compressor.wgate", c.head_dim, c.hidden);
    }
    s.norm = b.raw(p + "compressor.norm.weight", DType::bf16, {c.head_dim});
    s.wk = b.dense(p + "indexer.wk", c.index_head_dim, c.head_dim);
    s.k_norm = b.raw(p + "indexer.k_norm.weight", DType::bf16, {c.index_head_dim});
    w.compressor = s;
  }
  if (c.is_index_source(layer)) {
    IndexerWeights s;
    s.wq_b = b.fp8(p + "indexer.wq_b", c.index_heads * c.index_head_dim, c.q_rank, kQuantised);
    s.weights_proj = b.dense(p + "indexer.weights_proj", c.index_heads, c.hidden);
    w.indexer = s;
  }
}

MoeWeights bind_moe(TensorBinder& b, const std::string& p, const Config& c, int64_t experts) {
  MoeWeights w;
  w.gate = b.dense(p + "gate", experts, c.hidden);
  w.bias = b.raw(p + "gate.bias", DType::f32, {experts});
  w.bias_vl = b.raw(p + "gate.bias_vl", DType::f32, {experts});
  w.experts.reserve(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e) {
    const std::string expert = str_cat(p, "experts.", e, ".");
    w.experts.push_back({.w1 = b.fp4(expert + "w1", c.ffn_dim, c.hidden, kQuantised),
                         .w3 = b.fp4(expert + "w3", c.ffn_dim, c.hidden, kQuantised),
                         .w2 = b.fp4(expert + "w2", c.hidden, c.ffn_dim, kQuantised)});
  }
  const std::string shared = p + "shared_experts.";
  w.shared = {.w1 = b.fp8(shared + "w1", c.ffn_dim, c.hidden, kQuantised),
              .w3 = b.fp8(shared + "w3", c.ffn_dim, c.hidden, kQuantised),
              .w2 = b.fp8(shared + "w2", c.hidden, c.ffn_dim, kQuantised)};
  return w;
}

// What backbone layers and draft stages have in common.
LayerWeights bind_block(TensorBinder& b, const std::string& p, const Config& c, int64_t experts) {
  LayerWeights w;
  w.attn_norm = b.raw(p + "attn_norm.weight", DType::bf16, {c.hidden});
  w.ffn_norm = b.raw(p + "ffn_norm.weight", DType::bf16, {c.hidden});
  w.attn_mix = bind_mix(b, p + "hc_attn", c);
  w.ffn_mix = bind_mix(b, p + "hc_ffn", c);
  w.attn = bind_attention(b, p + "attn.", c);
  w.ffn = bind_moe(b, p + "ffn.", c, experts);
  return w;
}

EngramWeights bind_engram(TensorBinder& b, const std::string& p, const Config& c, int64_t rows) {
  const EngramConfig& e = c.engram;
  EngramWeights w;
  w.codes = b.raw(p + "embed.weight", DType::f8_e4m3, {rows, e.head_dim});
  w.scales = b.raw(p + "embed.scale", DType::f8_e8m0, {rows, e.head_dim / 32});
  w.wkv = b.fp8(p + "wkv", (c.hc_copies + 1) * c.hidden, e.columns() * e.head_dim, kQuantised);
  w.q_weight = b.raw(p + "q_weight", DType::bf16, {c.hc_copies, c.hidden});
  w.k_weight = b.raw(p + "k_weight", DType::bf16, {c.hc_copies, c.hidden});
  return w;
}

VisionWeights bind_vision(TensorBinder& b, const Config& c) {
  const VisionConfig& v = c.vision;
  VisionWeights w;
  w.patch_embed = b.dense("vision.patch_embed.proj", v.hidden, v.patch_width(), true);
  for (int64_t i = 0; i < v.layers; ++i) {
    const std::string p = str_cat("vision.blocks.", i, ".");
    w.blocks.push_back({.norm1 = b.raw(p + "norm1.weight", DType::bf16, {v.hidden}),
                        .norm2 = b.raw(p + "norm2.weight", DType::bf16, {v.hidden}),
                        .wqkv = b.dense(p + "attn.wqkv", 3 * v.hidden, v.hidden, true),
                        .wo = b.dense(p + "attn.wo", v.hidden, v.hidden, true),
                        .w1 = b.dense(p + "mlp.w1", 2 * v.ffn_dim, v.hidden),
                        .w2 = b.dense(p + "mlp.w2", v.hidden, v.ffn_dim)});
  }
  w.norm = b.raw("vision.norm.weight", DType::bf16, {v.hidden});
  w.aligner_w1 = b.dense("aligner.w1", c.hidden, v.hidden * v.downsample * v.downsample, true);
  w.aligner_w2 = b.dense("aligner.w2", c.hidden, c.hidden, true);
  w.image_start = b.raw("image_start", DType::bf16, {c.hidden});
  w.image_end = b.raw("image_end", DType::bf16, {c.hidden});
  w.image_newline = b.raw("image_newline", DType::bf16, {c.hidden});
  return w;
}

DsparkWeights bind_dspark(TensorBinder& b, const Config& c) {
  const DsparkConfig& d = c.dspark;
  DsparkWeights w;
  for (int64_t i = 0; i < d.stages; ++i) {
    w.stages.push_back(bind_block(b, str_cat("mtp.", i, "."), c, d.experts));
  }
  const int64_t taps = static_cast<int64_t>(d.target_layers.size());
  const std::string last = str_cat("mtp.", d.stages - 1, ".");
  w.main_proj = b.fp8("mtp.0.main_proj", c.hidden, taps * c.hidden, kQuantised);
  w.main_norm = b.raw("mtp.0.main_norm.weight", DType::bf16, {c.hidden});
  w.norm = b.raw(last + "norm.weight", DType::bf16, {c.hidden});
  w.markov_embed = b.raw(last + "markov_head.embed.weight", DType::bf16, {c.vocab, d.markov_rank});
  w.markov_head = b.dense(last + "markov_head.head", c.vocab, d.markov_rank);
  w.confidence = b.dense(last + "confidence_head.proj", 1, c.hidden + d.markov_rank);
  return w;
}

}  // namespace

Weights bind_weights(const io::Checkpoint& checkpoint, const Config& c) {
  TensorBinder b(checkpoint, c.fp8_block);
  Weights w;
  w.embed = b.raw("embed.weight", DType::bf16, {c.vocab, c.hidden});
  w.head = b.dense("head", c.vocab, c.hidden);
  w.norm = b.raw("norm.weight", DType::bf16, {c.hidden});
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string p = str_cat("layers.", layer, ".");
    LayerWeights block = bind_block(b, p, c, c.experts);
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
  b.finish();
  return w;
}

}  // namespace tessera::deepseek_v41
