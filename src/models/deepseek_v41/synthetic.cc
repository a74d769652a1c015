#include "models/deepseek_v41/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/str_cat.h"
#include "ops/rope/rope.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;
constexpr int64_t kChunk = 1 << 16;  // elements of an item of a parallel loop

// rms of a value whose code is drawn evenly: E4M3 without its two NaN codes, E2M1.
constexpr double kE4m3Rms = 107.0;
constexpr double kE2m1Rms = 2.926;

uint64_t mix64(uint64_t x) {
  uint64_t z = x + kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

// Half width of the even distribution of a tensor that is no gain.
float amplitude_of(std::string_view tensor) {
  if (tensor.ends_with(".bias")) {
    return 0x1p-3f;
  }
  if (tensor == "aligner.w1.weight") {
    return 0x1p-6f;
  }
  const bool is_second = tensor == "aligner.w2.weight" || tensor.ends_with(".mlp.w2.weight");
  return is_second ? 0x1p-5f : 0x1p-4f;
}

// Rows [first, first + rows) of an FP8 matrix, whole tiles, as a matrix whose input is not
// quantised.
Linear rows_of(const Linear& whole, int64_t first, int64_t rows) {
  const WeightFp8Block& all = std::get<WeightFp8Block>(whole.weight.format);
  const int64_t inputs = whole.weight.inputs;
  Linear part;
  part.weight = {
      WeightFp8Block{all.codes + first * inputs,
                     all.scales + first / all.block * ceil_div(inputs, all.block), all.block},
      rows, inputs};
  return part;
}

// body(first, last) for pieces of [0, count), shared by the threads.
template <typename Body>
void for_chunks(ExecContext& ctx, int64_t count, const Body& body) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t item, int) {
    body(item * kChunk, std::min(count, (item + 1) * kChunk));
  });
}

}  // namespace

uint64_t fnv(std::span<const std::byte> bytes, uint64_t start) {
  uint64_t h = start;
  for (const std::byte b : bytes) {
    h = (h ^ static_cast<uint64_t>(b)) * 0x100000001B3U;
  }
  return h;
}

SyntheticStream::SyntheticStream(std::string_view tensor, uint64_t seed)
    : key_(mix64(seed ^ fnv(std::as_bytes(std::span(tensor))))) {}

uint64_t SyntheticStream::bits(int64_t index) const {
  return mix64(key_ + static_cast<uint64_t>(index) * kGolden);
}

void synthesize(ExecContext& ctx, std::string_view tensor, uint64_t seed, std::span<bf16> out) {
  const SyntheticStream stream(tensor, seed);
  const bool is_gain = contains(tensor, "norm");
  const float offset = is_gain ? 1.0f : 0.0f;
  const float amplitude = is_gain ? 0.25f : amplitude_of(tensor);
  for_chunks(ctx, static_cast<int64_t>(out.size()), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      // amplitude * u is exact: a power of two.
      out[static_cast<size_t>(i)] = to_bf16(offset + amplitude * stream.unit(i));
    }
  });
}

std::byte* SyntheticWeights::allocate(int64_t bytes) {
  bytes_ += bytes;
  return memory_.emplace_back(bytes).data();
}

const std::byte* SyntheticWeights::bf16_values(ExecContext& ctx, const std::string& tensor,
                                               int64_t count) {
  std::byte* data = allocate(count * dtype_bytes(DType::bf16));
  synthesize(ctx, tensor, seed_, {reinterpret_cast<bf16*>(data), static_cast<size_t>(count)});
  return data;
}

const std::byte* SyntheticWeights::f32_values(ExecContext& ctx, const std::string& tensor,
                                              int64_t count, float offset, float amplitude) {
  std::byte* data = allocate(count * dtype_bytes(DType::f32));
  const SyntheticStream stream(tensor, seed_);
  float* out = reinterpret_cast<float*>(data);
  for_chunks(ctx, count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      out[i] = offset + amplitude * stream.unit(i);
    }
  });
  return data;
}

// Eight codes (FP4: sixteen) from every 64 bits; E4M3's NaN codes become the largest number.
const std::byte* SyntheticWeights::codes(ExecContext& ctx, const std::string& tensor, int64_t bytes,
                                         bool is_e4m3) {
  std::byte* data = allocate(bytes);
  const SyntheticStream stream(tensor, seed_);
  for_chunks(ctx, ceil_div(bytes, 8), [&](int64_t first, int64_t last) {
    for (int64_t word = first; word < last; ++word) {
      uint64_t bits = stream.bits(word);
      if (is_e4m3) {
        // The high bit of a byte of `low + 1` says that all seven low bits of `bits` are set.
        const uint64_t low = bits & 0x7f7f7f7f7f7f7f7fU;
        bits ^= ((low + 0x0101010101010101U) & 0x8080808080808080U) >> 7;
      }
      std::memcpy(data + word * 8, &bits,
                  static_cast<size_t>(std::min<int64_t>(8, bytes - word * 8)));
    }
  });
  return data;
}

// E8M0: the power of two that brings values of this rms nearest to 1/sqrt(inputs), or half of it.
const std::byte* SyntheticWeights::scales(ExecContext& ctx, const std::string& tensor,
                                          int64_t count, double values_rms, int64_t inputs) {
  std::byte* data = allocate(count);
  const SyntheticStream stream(tensor, seed_);
  const double wanted = -std::log2(values_rms * std::sqrt(static_cast<double>(inputs)));
  const int exponent = static_cast<int>(std::lround(wanted));
  for_chunks(ctx, count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      data[i] = static_cast<std::byte>(127 + exponent - static_cast<int>(stream.bits(i) >> 63));
    }
  });
  return data;
}

Linear SyntheticWeights::dense(ExecContext& ctx, const std::string& name, int64_t outputs,
                               int64_t inputs, bool has_bias) {
  Linear layer;
  layer.weight = {WeightBf16{bf16_values(ctx, name + ".weight", outputs * inputs)}, outputs,
                  inputs};
  if (has_bias) {
    layer.bias = bf16_values(ctx, name + ".bias", outputs);
  }
  return layer;
}

Linear SyntheticWeights::fp8(ExecContext& ctx, const std::string& name, int64_t outputs,
                             int64_t inputs, int64_t block) {
  Linear layer;
  const int64_t tiles = ceil_div(outputs, block) * ceil_div(inputs, block);
  layer.weight = {WeightFp8Block{codes(ctx, name + ".weight", outputs * inputs, true),
                                 scales(ctx, name + ".scale", tiles, kE4m3Rms, inputs), block},
                  outputs, inputs};
  layer.input = InputRule::e4m3_32;
  return layer;
}

Linear SyntheticWeights::fp4(ExecContext& ctx, const std::string& name, int64_t outputs,
                             int64_t inputs) {
  Linear layer;
  layer.weight = {
      WeightMxfp4{codes(ctx, name + ".weight", outputs * inputs / 2, false),
                  scales(ctx, name + ".scale", outputs * inputs / 32, kE2m1Rms, inputs)},
      outputs, inputs};
  layer.input = InputRule::e4m3_32;
  return layer;
}

MixWeights SyntheticWeights::mix(ExecContext& ctx, const std::string& prefix, const Config& c) {
  const int64_t inputs = c.hc_copies * c.hidden;
  return {.fn = f32_values(ctx, prefix + "_fn", c.hc_mixes() * inputs, 0.0f, 0x1p-8f),
          .base = f32_values(ctx, prefix + "_base", c.hc_mixes(), 0.0f, 0x1p-3f),
          .scale = f32_values(ctx, prefix + "_scale", 3, 1.0f, 0x1p-2f)};
}

AttentionWeights SyntheticWeights::attention(ExecContext& ctx, const std::string& p,
                                             const Config& c, int64_t layer) {
  AttentionWeights w;
  const int64_t block = c.fp8_block;
  w.wq_a = fp8(ctx, p + "wq_a", c.q_rank, c.hidden, block);
  w.q_norm = bf16_values(ctx, p + "q_norm.weight", c.q_rank);
  w.wq_b = fp8(ctx, p + "wq_b", c.heads * c.head_dim, c.q_rank, block);
  w.wkv = fp8(ctx, p + "wkv", c.head_dim, c.hidden, block);
  w.kv_norm = bf16_values(ctx, p + "kv_norm.weight", c.head_dim);
  const int64_t inputs = c.heads * c.head_dim / c.o_groups;  // of one group
  const Linear wo_a = fp8(ctx, p + "wo_a", c.o_groups * c.o_rank, inputs, block);
  for (int64_t group = 0; group < c.o_groups; ++group) {
    w.wo_a.push_back(rows_of(wo_a, group * c.o_rank, c.o_rank));
  }
  w.wo_b = fp8(ctx, p + "wo_b", c.hidden, c.o_groups * c.o_rank, block);
  w.sink = f32_values(ctx, p + "attn_sink", c.heads, 0.0f, 0x1p-3f);
  if (c.is_kv_source(layer)) {
    CompressorWeights s;
    s.wkv = dense(ctx, p + "compressor.wkv", c.head_dim, c.hidden);
    if (c.ratio(layer) > 1) {
      s.wgate = dense(ctx, p + "compressor.wgate", c.head_dim, c.hidden);
    }
    s.norm = bf16_values(ctx, p + "compressor.norm.weight", c.head_dim);
    s.wk = dense(ctx, p + "indexer.wk", c.index_head_dim, c.head_dim);
    s.k_norm = bf16_values(ctx, p + "indexer.k_norm.weight", c.index_head_dim);
    w.compressor = s;
  }
  if (c.is_index_source(layer)) {
    w.indexer = {
        .wq_b = fp8(ctx, p + "indexer.wq_b", c.index_heads * c.index_head_dim, c.q_rank, block),
        .weights_proj = dense(ctx, p + "indexer.weights_proj", c.index_heads, c.hidden)};
  }
  return w;
}

MoeWeights SyntheticWeights::mixture(ExecContext& ctx, const std::string& p, const Config& c) {
  MoeWeights w;
  w.gate = dense(ctx, p + "gate", c.experts, c.hidden);
  w.bias = f32_values(ctx, p + "gate.bias", c.experts, 0.0f, 0x1p-3f);
  w.bias_vl = f32_values(ctx, p + "gate.bias_vl", c.experts, 0.0f, 0x1p-3f);
  for (int64_t e = 0; e < c.experts; ++e) {
    const std::string expert = str_cat(p, "experts.", e, ".");
    w.experts.push_back({.w1 = fp4(ctx, expert + "w1", c.ffn_dim, c.hidden),
                         .w3 = fp4(ctx, expert + "w3", c.ffn_dim, c.hidden),
                         .w2 = fp4(ctx, expert + "w2", c.hidden, c.ffn_dim)});
  }
  const std::string shared = p + "shared_experts.";
  w.shared = {.w1 = fp8(ctx, shared + "w1", c.ffn_dim, c.hidden, c.fp8_block),
              .w3 = fp8(ctx, shared + "w3", c.ffn_dim, c.hidden, c.fp8_block),
              .w2 = fp8(ctx, shared + "w2", c.hidden, c.ffn_dim, c.fp8_block)};
  return w;
}

void SyntheticWeights::add_text(ExecContext& ctx, const Config& c) {
  TESSERA_CHECK(c.engram.layers.empty() && c.dspark.stages == 0);
  Weights& w = weights_;
  w.embed = bf16_values(ctx, "embed.weight", c.vocab * c.hidden);
  w.head = dense(ctx, "head", c.vocab, c.hidden);
  w.norm = bf16_values(ctx, "norm.weight", c.hidden);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string p = str_cat("layers.", layer, ".");
    LayerWeights made;
    made.attn_norm = bf16_values(ctx, p + "attn_norm.weight", c.hidden);
    made.ffn_norm = bf16_values(ctx, p + "ffn_norm.weight", c.hidden);
    made.attn_mix = mix(ctx, p + "hc_attn", c);
    made.ffn_mix = mix(ctx, p + "hc_ffn", c);
    made.attn = attention(ctx, p + "attn.", c, layer);
    made.ffn = mixture(ctx, p + "ffn.", c);
    w.layers.push_back(std::move(made));
  }
}

void SyntheticWeights::add_vision(ExecContext& ctx, const Config& c) {
  const VisionConfig& v = c.vision;
  VisionWeights& w = weights_.vision;
  w.patch_embed = dense(ctx, "vision.patch_embed.proj", v.hidden, v.patch_width(), true);
  for (int64_t i = 0; i < v.layers; ++i) {
    const std::string p = str_cat("vision.blocks.", i, ".");
    w.blocks.push_back({.norm1 = bf16_values(ctx, p + "norm1.weight", v.hidden),
                        .norm2 = bf16_values(ctx, p + "norm2.weight", v.hidden),
                        .wqkv = dense(ctx, p + "attn.wqkv", 3 * v.hidden, v.hidden, true),
                        .wo = dense(ctx, p + "attn.wo", v.hidden, v.hidden, true),
                        .w1 = dense(ctx, p + "mlp.w1", 2 * v.ffn_dim, v.hidden),
                        .w2 = dense(ctx, p + "mlp.w2", v.hidden, v.ffn_dim)});
  }
  w.norm = bf16_values(ctx, "vision.norm.weight", v.hidden);
  const int64_t cell = v.hidden * v.downsample * v.downsample;
  w.aligner_w1 = dense(ctx, "aligner.w1", c.hidden, cell, true);
  w.aligner_w2 = dense(ctx, "aligner.w2", c.hidden, c.hidden, true);
  w.image_start = bf16_values(ctx, "image_start", c.hidden);
  w.image_end = bf16_values(ctx, "image_end", c.hidden);
  w.image_newline = bf16_values(ctx, "image_newline", c.hidden);
}

Network synthetic_network(const Config& config, const SyntheticWeights& weights) {
  Network network;
  network.config = config;
  network.weights = weights.weights();
  network.window_frequencies = rope_frequencies(config.rotary_dim, config.rope_theta, {});
  network.compressed_frequencies =
      rope_frequencies(config.rotary_dim, config.compress_rope_theta, config.yarn);
  return network;
}

Config text_only(const Config& config) {
  Config c = config;
  c.engram.layers.clear();
  c.engram.table_rows.clear();
  c.dspark.stages = 0;
  c.dspark.target_layers.clear();
  c.vision.layers = 0;
  c.image_token = -1;
  return c;
}

Config text_excerpt(const Config& config, const TextExcerpt& excerpt) {
  TESSERA_CHECK(excerpt.layers > 0 && excerpt.experts >= config.active_experts);
  Config c = text_only(config);
  c.layers = excerpt.layers;
  c.experts = excerpt.experts;
  c.vocab = excerpt.vocab;
  c.compress_ratios.assign(static_cast<size_t>(excerpt.layers), 2);
  c.kv_sources = {0};
  c.index_sources = {0};
  c.candidate_source = -1;
  return c;
}

}  // namespace tessera::deepseek_v41
