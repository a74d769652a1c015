#include "models/deepseek_v41/weight_ranges.h"

#include <algorithm>

#include "ops/linear/linear.h"

namespace tessera::deepseek_v41 {
namespace {

class Ranges {
 public:
  void add(const Linear& layer) {
    for (const ByteSpan bytes : weight_bytes(layer.weight)) {
      add(bytes.data(), std::ssize(bytes));
    }
  }
  void add(const ExpertWeights& expert) {
    add(expert.w1);
    add(expert.w3);
    add(expert.w2);
  }
  // Tensors that a checkpoint may lack are nullptr.
  void add(const std::byte* data, int64_t bytes) {
    if (data != nullptr && bytes > 0) {
      list_.push_back({data, static_cast<size_t>(bytes)});
    }
  }
  std::vector<ByteSpan> take() { return std::move(list_); }

 private:
  std::vector<ByteSpan> list_;
};

constexpr int64_t kBf16 = 2;
constexpr int64_t kF32 = 4;

void add_mix(const Config& c, const MixWeights& mix, Ranges& ranges) {
  ranges.add(mix.fn, c.hc_mixes() * c.hc_copies * c.hidden * kF32);
  ranges.add(mix.base, c.hc_mixes() * kF32);
  ranges.add(mix.scale, 3 * kF32);
}

void add_attention_matrices(const AttentionWeights& w, Ranges& ranges) {
  for (const Linear* matrix : {&w.wq_a, &w.wq_b, &w.wkv}) {
    ranges.add(*matrix);
  }
  if (w.compressor.has_value()) {
    ranges.add(w.compressor->wkv);
    ranges.add(w.compressor->wgate);
    ranges.add(w.compressor->wk);
  }
  if (w.indexer.has_value()) {
    ranges.add(w.indexer->wq_b);
    ranges.add(w.indexer->weights_proj);
  }
  for (const Linear& group : w.wo_a) {
    ranges.add(group);
  }
  ranges.add(w.wo_b);
}

void add_vectors(const Config& c, const LayerWeights& w, Ranges& ranges) {
  add_mix(c, w.attn_mix, ranges);
  ranges.add(w.attn_norm, c.hidden * kBf16);
  ranges.add(w.attn.q_norm, c.q_rank * kBf16);
  ranges.add(w.attn.kv_norm, c.head_dim * kBf16);
  ranges.add(w.attn.sink, c.heads * kF32);
  if (w.attn.compressor.has_value()) {
    ranges.add(w.attn.compressor->norm, c.head_dim * kBf16);
    ranges.add(w.attn.compressor->k_norm, c.index_head_dim * kBf16);
  }
  add_mix(c, w.ffn_mix, ranges);
  ranges.add(w.ffn_norm, c.hidden * kBf16);
  ranges.add(w.ffn.bias, c.experts * kF32);
  ranges.add(w.ffn.bias_vl, c.experts * kF32);
  if (w.engram.has_value()) {
    ranges.add(w.engram->q_weight, c.hc_copies * c.hidden * kBf16);
    ranges.add(w.engram->k_weight, c.hc_copies * c.hidden * kBf16);
  }
}

int64_t most_bytes(std::span<const ByteSpan> ranges) {
  int64_t bytes = 0;
  for (const ByteSpan range : ranges) {
    bytes += Residency::most_bytes(range);
  }
  return bytes;
}

}  // namespace

std::vector<ByteSpan> vector_ranges(const Config& config, const LayerWeights& layer) {
  Ranges ranges;
  add_vectors(config, layer, ranges);
  return ranges.take();
}

std::vector<ByteSpan> dense_ranges(const Config& config, const LayerWeights& layer) {
  Ranges ranges;
  add_vectors(config, layer, ranges);
  if (layer.engram.has_value()) {
    ranges.add(layer.engram->wkv);
  }
  add_attention_matrices(layer.attn, ranges);
  ranges.add(layer.ffn.gate);
  ranges.add(layer.ffn.shared);
  return ranges.take();
}

// All w1 and w3 come before the first w2.
std::vector<ByteSpan> expert_ranges(const MoeWeights& weights, std::span<const int32_t> picks) {
  std::vector<bool> is_picked(weights.experts.size());
  for (const int32_t expert : picks) {
    is_picked[static_cast<size_t>(expert)] = true;
  }
  Ranges ranges;
  for (size_t e = 0; e < is_picked.size(); ++e) {
    if (is_picked[e]) {
      ranges.add(weights.experts[e].w1);
      ranges.add(weights.experts[e].w3);
    }
  }
  for (size_t e = 0; e < is_picked.size(); ++e) {
    if (is_picked[e]) {
      ranges.add(weights.experts[e].w2);
    }
  }
  return ranges.take();
}

std::vector<ByteSpan> head_ranges(const Config& config, const Weights& weights) {
  Ranges ranges;
  ranges.add(weights.norm, config.hidden * kBf16);
  ranges.add(weights.head);
  return ranges.take();
}

std::vector<ByteSpan> hot_ranges(const Network& network) {
  std::vector<ByteSpan> hot = head_ranges(network.config, network.weights);
  for (const LayerWeights& layer : network.weights.layers) {
    const std::vector<ByteSpan> dense = dense_ranges(network.config, layer);
    hot.insert(hot.end(), dense.begin(), dense.end());
  }
  return hot;
}

int64_t largest_use_bytes(const Network& network) {
  int64_t largest = 0;
  for (const LayerWeights& layer : network.weights.layers) {
    Ranges expert;
    expert.add(layer.ffn.experts.empty() ? layer.ffn.shared : layer.ffn.experts.front());
    int64_t matrix = 0;
    for (const ByteSpan range : dense_ranges(network.config, layer)) {
      matrix = std::max(matrix, Residency::most_bytes(range));
    }
    const int64_t vectors = most_bytes(vector_ranges(network.config, layer));
    largest = std::max(largest, vectors + std::max(most_bytes(expert.take()), matrix));
  }
  return largest;
}

void expect_embedding_rows(Residency& residency, const Network& network, const StepPlan& plan) {
  std::vector<int64_t> rows;
  for (size_t row = 0; row < plan.ids.size(); ++row) {
    if (plan.embeddings[row] == nullptr) {
      rows.push_back(plan.ids[row]);
    }
  }
  const int64_t row_bytes = network.config.hidden * kBf16;
  residency.expect_rows(
      {network.weights.embed, static_cast<size_t>(network.config.vocab * row_bytes)}, row_bytes,
      rows);
}

void expect_engram_rows(Residency& residency, const Network& network, int64_t rows,
                        const int64_t* ids) {
  const int64_t memories = std::ssize(network.memories);
  std::vector<int64_t> table_rows;
  for (int64_t memory = 0; memory < memories; ++memory) {
    const int64_t layer = network.config.engram.layers[static_cast<size_t>(memory)];
    const EngramTable& table = network.weights.layers[static_cast<size_t>(layer)].engram->table;
    const int64_t columns = network.memories[static_cast<size_t>(memory)].columns();
    table_rows.clear();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t* first = ids + (row * memories + memory) * columns;
      table_rows.insert(table_rows.end(), first, first + columns);
    }
    const auto expect = [&](const std::byte* data, int64_t row_bytes) {
      if (row_bytes > 0) {
        residency.expect_rows({data, static_cast<size_t>(table.rows * row_bytes)}, row_bytes,
                              table_rows);
      }
    };
    expect(table.codes, table.code_row_bytes());
    expect(table.scales, table.scale_row_bytes());
  }
}

}  // namespace tessera::deepseek_v41
