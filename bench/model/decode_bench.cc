#include "model/decode_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/synthetic.h"
#include "ops/quantize/quantize.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::bench {
namespace {

using deepseek_v41::Config;
using deepseek_v41::LayerWeights;
using deepseek_v41::Network;
using deepseek_v41::SequenceState;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostLayers = 8;
constexpr int64_t kVocab = 1024;  // the head is not what is measured

int64_t bytes_of(const Linear& layer) {
  int64_t bytes = 0;
  for (const std::span<const std::byte> part : weight_bytes(layer.weight)) {
    bytes += static_cast<int64_t>(part.size());
  }
  return bytes;
}

// Weights that one token reads.
struct Active {
  int64_t bytes = 0;
  double flops = 0;

  void add(const Linear& layer, int64_t times = 1) {
    bytes += times * bytes_of(layer);
    flops += 2.0 * static_cast<double>(times * layer.weight.outputs * layer.weight.inputs);
  }
  void add_mixes(const Config& c) {  // of both halves, fp32
    const int64_t elements = 2 * c.hc_mixes() * c.hc_copies * c.hidden;
    bytes += elements * 4;
    flops += 2.0 * static_cast<double>(elements);
  }
  void add(const ExpertWeights& expert, int64_t times) {
    add(expert.w1, times);
    add(expert.w3, times);
    add(expert.w2, times);
  }
};

// `has_index`: whether the context is long enough for the index queries to run.
Active active_weights(const Network& network, bool has_index) {
  Active a;
  for (const LayerWeights& w : network.weights.layers) {
    for (const Linear* layer :
         {&w.attn.wq_a, &w.attn.wq_b, &w.attn.wkv, &w.attn.wo_b, &w.ffn.gate}) {
      a.add(*layer);
    }
    a.add_mixes(network.config);
    for (const Linear& group : w.attn.wo_a) {
      a.add(group);
    }
    if (w.attn.compressor.has_value()) {
      a.add(w.attn.compressor->wkv);
      a.add(w.attn.compressor->wgate);
    }
    if (w.attn.indexer.has_value() && has_index) {
      a.add(w.attn.indexer->wq_b);
      a.add(w.attn.indexer->weights_proj);
    }
    a.add(w.ffn.experts.front(), network.config.active_experts);
    a.add(w.ffn.shared, 1);
  }
  a.add(network.weights.head);
  return a;
}

// A sequence of `tokens` tokens whose caches hold random entries.
SequenceState make_state(const Config& config, deepseek_v41::CachePools& pools, int64_t tokens) {
  constexpr int64_t kRows = 64;
  const int64_t width = std::max(config.head_dim, config.index_head_dim);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<bf16> values(static_cast<size_t>(kRows * width));
  for (bf16& value : values) {
    value = to_bf16(normal(random));
  }
  const auto row = [&](int64_t i) { return values.data() + i % kRows * width; };
  SequenceState state(config, pools);
  state.prepare(config, tokens);
  const int64_t row_bytes = window_row_bytes(config.head_dim);
  for (int64_t i = 0; i < config.layers * config.window; ++i) {
    std::byte* packed = state.rings.data() + i * row_bytes;
    pack_row(GroupFormat::e4m3_e8m0_32, row(i), config.head_dim, packed, packed + config.head_dim);
  }
  for (size_t source = 0; source < config.kv_sources.size(); ++source) {
    const int64_t entries = tokens / config.ratio(config.kv_sources[source]);
    const PageTable& kv = state.kv[source];
    const PageTable& keys = state.index_keys[source];
    for (int64_t j = 0; j < entries; ++j) {
      pack_row(GroupFormat::e2m1_e4m3_16, row(j), config.head_dim, kv.codes(j), kv.scales(j));
      pack_row(GroupFormat::e2m1_e8m0_32, row(j), config.index_head_dim, keys.codes(j),
               keys.scales(j));
    }
  }
  state.position = tokens;
  return state;
}

// Seconds of `steps` steps of one row after one that is not counted.
std::vector<double> decode_steps(ExecContext& ctx, const Network& network, SequenceState& state,
                                 int steps) {
  const Config& config = network.config;
  deepseek_v41::StepBuffers buffers(config, 1, 1);
  std::mt19937 random(2);
  std::vector<double> seconds;
  for (int step = 0; step <= steps; ++step) {
    const int32_t id = static_cast<int32_t>(random() % static_cast<uint32_t>(config.vocab));
    const Clock::time_point start = Clock::now();
    deepseek_v41::StepPlan plan;
    deepseek_v41::add_run(plan, state, {&id, 1}, {}, {});
    deepseek_v41::plan_all_rows(plan, config);
    plan.logit_rows = {0};
    state.prepare(config, 1);
    deepseek_v41::forward(ctx, network, plan, buffers);
    deepseek_v41::commit(config, plan, 0, 1, buffers, state);
    if (step > 0) {
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    const float* logits = buffers.logits.as<float>();
    TESSERA_CHECK(std::all_of(logits, logits + config.vocab,
                              [](float logit) { return std::isfinite(logit); }));
  }
  return seconds;
}

int64_t choose_layers(const DecodeBenchOptions& options, int64_t layer_bytes) {
  if (options.layers > 0) {
    return options.layers;
  }
  return std::clamp<int64_t>(ceil_div(4 * cache_sizes().last_level_bytes, layer_bytes), 1,
                             kMostLayers);
}

// Weights of one layer, of the small head and the embedding, and what of a layer one token reads.
struct Sizes {
  int64_t layer;
  int64_t active_layer;
};

Sizes sizes_of(const Config& c, int64_t experts) {
  const int64_t expert = 3 * (c.ffn_dim * c.hidden / 2 + c.ffn_dim * c.hidden / 32);
  const int64_t dense = (c.q_rank + c.head_dim + c.o_groups * c.o_rank + 3 * c.ffn_dim) * c.hidden +
                        c.heads * c.head_dim * (c.q_rank + c.o_rank) +
                        2 * c.hc_mixes() * c.hc_copies * c.hidden * 4;
  return {dense + experts * (expert + 2 * c.hidden),
          dense + c.active_experts * expert + experts * 2 * c.hidden};
}

void check_options(const Config& config, const DecodeBenchOptions& options) {
  if (options.experts < config.active_experts || options.experts > 4096) {
    throw Error(ErrorCode::bad_request, str_cat("--experts ", options.experts, ": expected ",
                                                config.active_experts, " to 4096"));
  }
  if (options.context < 2 || options.context % 2 != 0 || options.context > (1 << 20)) {
    throw Error(ErrorCode::bad_request, str_cat("--context ", options.context,
                                                ": expected an even number from 2 to 1048576"));
  }
  if (options.steps < 1 || options.layers < 0 || options.layers > 64) {
    throw Error(ErrorCode::bad_request, "expected at least 1 step and 0 to 64 layers");
  }
}

void check_memory(int64_t bytes) {
  const int64_t available = available_memory_bytes();
  if (available > 0 && bytes > available) {
    throw Error(ErrorCode::bad_request,
                str_cat("the layers need ", bytes / 1000000, " MB, ", available / 1000000,
                        " MB are available; ask for fewer --layers or --experts"));
  }
}

}  // namespace

ModelReport bench_decode(const Config& released, const DecodeBenchOptions& options) {
  check_options(released, options);
  const Sizes sizes = sizes_of(released, options.experts);
  const int64_t layers = choose_layers(options, sizes.active_layer);
  check_memory(layers * sizes.layer);
  const Config config = deepseek_v41::text_excerpt(
      released, {.layers = layers, .experts = options.experts, .vocab = kVocab});
  ThreadPool threads(options.threads);
  Arena scratch;
  ExecContext ctx{threads, scratch, options.isa, {}};
  const deepseek_v41::SyntheticWeights weights(ctx, config);
  const Network network = deepseek_v41::synthetic_network(config, weights);
  deepseek_v41::CachePools pools(config, options.context + options.steps + 1);
  SequenceState state = make_state(config, pools, options.context);
  std::vector<double> seconds = decode_steps(ctx, network, state, options.steps);

  ModelReport report;
  report.peak_bytes = peak_memory_bytes();
  report.weight_bytes = weights.bytes();
  report.limits = measure_limits(options.isa, options.threads);
  const bool has_index = options.context / config.ratio(0) > config.index_top_k;
  const Active active = active_weights(network, has_index);
  report.active_bytes = active.bytes;
  for (double& s : seconds) {
    s /= static_cast<double>(layers);
  }
  Result result;
  result.name = "decode.layer";
  result.shape =
      str_cat(layers, " layers, ", options.experts, " experts, context ", options.context);
  const double share = 1.0 / static_cast<double>(layers);
  fill_rates(report.limits, active.flops * share, static_cast<double>(active.bytes) * share,
             seconds, result);
  report.results = {result};
  const int64_t cache = cache_sizes().last_level_bytes;
  report.notes = {
      str_cat("a step reads ", active.bytes / 1000000, " MB of weights, ",
              active.bytes / layers / 1000000, " MB per layer"),
      str_cat("weights ", report.weight_bytes / 1000000, " MB, last-level cache ", cache / 1000000,
              " MB: ", active.bytes >= 2 * cache ? "read from memory" : "PARTLY FROM THE CACHE"),
      str_cat("peak memory ", report.peak_bytes / 1000000, " MB")};
  return report;
}

}  // namespace tessera::bench
