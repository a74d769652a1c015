#include "models/deepseek_v41/forward.h"

#include <algorithm>

#include "base/checked_math.h"
#include "models/deepseek_v41/layer_context.h"
#include "models/deepseek_v41/weight_ranges.h"
#include "ops/embedding/embedding.h"
#include "ops/hyper_connections/hyper_connections.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace tessera::deepseek_v41 {
namespace {

// One half-block's mixing weights, [rows, copies] / [rows, copies, copies].
struct Mixes {
  float* pre;
  float* post;
  float* comb;
};

// mixes(X) = split( (X . fn^T) * rstd(X) ): one statistic over all copies, applied after the
// projection.
Mixes mix(LayerContext& c, const MixWeights& w, const Stream& stream, const char* half) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const int64_t rows = stream.rows->size();
  const int64_t n = config.hc_copies;
  const int64_t width = n * config.hidden;
  Mixes out = {ctx.scratch.allocate<float>(rows * n), ctx.scratch.allocate<float>(rows * n),
               ctx.scratch.allocate<float>(rows * n * n)};
  const Arena::Scope scope(ctx.scratch);
  float* m = ctx.scratch.allocate<float>(rows * config.hc_mixes());
  float* rstd = ctx.scratch.allocate<float>(rows);
  project_mixes(ctx, stream.x, rows, width, w.fn, config.hc_mixes(), m);
  reciprocal_rms(ctx, stream.x, rows, width, static_cast<float>(config.norm_eps), rstd);
  const HyperConnectionSpec spec = {.copies = n,
                                    .sinkhorn_iterations = config.hc_iterations,
                                    .eps = static_cast<float>(config.hc_eps)};
  split_mixes(ctx, spec, m, rstd, rows, w.scale, w.base, out.pre, out.post, out.comb);
  ctx.trace.tap(mutable_view_of(out.pre, {rows, n}), "layers.", c.layer, half, ".mix.pre");
  ctx.trace.tap(mutable_view_of(out.post, {rows, n}), "layers.", c.layer, half, ".mix.post");
  ctx.trace.tap(mutable_view_of(out.comb, {rows, n, n}), "layers.", c.layer, half, ".mix.comb");
  return out;
}

// rmsnorm(collapse(X, pre)) [rows, hidden]
bf16* collapse_and_norm(LayerContext& c, const Stream& stream, const std::byte* norm,
                        const char* half) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const int64_t rows = stream.rows->size();
  bf16* x = ctx.scratch.allocate<bf16>(rows * config.hidden);
  collapse(ctx, config.hc_copies, stream.x, stream.pre, rows, config.hidden, x);
  rms_norm(ctx, x, norm, rows, config.hidden, static_cast<float>(config.norm_eps), x);
  ctx.trace.tap(mutable_view_of(x, {rows, config.hidden}), "layers.", c.layer, half, ".norm");
  return x;
}

// The stream's rows shrink to those that leave the layer.
void keep_out_rows(LayerContext& c, Stream& stream) {
  const Config& config = c.config();
  const RowSet& out = *c.rows().out;
  const bf16* kept =
      take_rows(c.ctx, stream.x, config.hc_copies * config.hidden, *stream.rows, out);
  if (kept != stream.x) {
    std::memcpy(stream.x, kept,
                static_cast<size_t>(out.size() * config.hc_copies * config.hidden) * sizeof(bf16));
  }
  stream.rows = &out;
}

// The layer's vectors stay while it computes; ops/linear asks for the matrices.
std::vector<ByteSpan> held_ranges(const LayerContext& c) {
  return c.ctx.residency != nullptr ? vector_ranges(c.config(), c.weights())
                                    : std::vector<ByteSpan>();
}

// What the step reads first; what it reads next is known to engram_ids() and mixture().
void read_ahead(ExecContext& ctx, const Network& network, const StepPlan& plan) {
  if (ctx.residency != nullptr) {
    expect_embedding_rows(*ctx.residency, network, plan);
    ctx.residency->expect(dense_ranges(network.config, network.weights.layers.front()));
  }
}

// X, pre = block(X, pre). The pre-mix of a sub-block is used by the next one; post and comb at
// once.
void block(LayerContext& c, Stream& stream) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const int64_t n = config.hc_copies;
  const Arena::Scope scope(ctx.scratch);
  // X = expand( attention( rmsnorm(collapse(X, pre_in), attn_norm) ), X, a_post, a_comb )
  Stream next = stream;
  const bf16* x = nullptr;
  Mixes a = {};
  if (c.rows().out == stream.rows) {  // no saving: mixes first, as the reference orders its taps
    a = mix(c, c.weights().attn_mix, stream, ".attn");
    x = collapse_and_norm(c, stream, c.weights().attn_norm, ".attn");
  } else {
    x = collapse_and_norm(c, stream, c.weights().attn_norm, ".attn");
    keep_out_rows(c, next);
    a = mix(c, c.weights().attn_mix, next, ".attn");
  }
  const int64_t rows = next.rows->size();
  bf16* y = ctx.scratch.allocate<bf16>(rows * config.hidden);
  attention(c, x, y);
  ctx.trace.tap(mutable_view_of(y, {rows, config.hidden}), "layers.", c.layer, ".attn");
  expand(ctx, n, y, a.post, a.comb, rows, config.hidden, next.x);
  ctx.trace.tap(mutable_view_of(next.x, {rows, n, config.hidden}), "layers.", c.layer,
                ".attn.stream");
  // X = expand( moe( rmsnorm(collapse(X, a_pre), ffn_norm) ), X, f_post, f_comb )
  const Mixes f = mix(c, c.weights().ffn_mix, next, ".ffn");
  next.pre = a.pre;
  const bf16* h = collapse_and_norm(c, next, c.weights().ffn_norm, ".ffn");
  mixture(c, h, y);
  ctx.trace.tap(mutable_view_of(y, {rows, config.hidden}), "layers.", c.layer, ".ffn");
  expand(ctx, n, y, f.post, f.comb, rows, config.hidden, next.x);
  ctx.trace.tap(mutable_view_of(next.x, {rows, n, config.hidden}), "layers.", c.layer);
  std::copy(f.pre, f.pre + rows * n, stream.pre);
  stream.rows = next.rows;
}

// X = the embedding, repeated for every copy; pre = (1, 0, 0, ...).
Stream embed_rows(ExecContext& ctx, const Network& network, const StepPlan& plan) {
  const Config& config = network.config;
  const int64_t rows = plan.rows();
  Stream stream = {ctx.scratch.allocate<bf16>(rows * config.hc_copies * config.hidden),
                   ctx.scratch.allocate<float>(rows * config.hc_copies),
                   plan.layers.front().stream};
  const Arena::Scope scope(ctx.scratch);
  bf16* h = ctx.scratch.allocate<bf16>(rows * config.hidden);
  embed(ctx, network.weights.embed, plan.ids.data(), plan.embeddings.data(), rows, config.hidden,
        h);
  ctx.trace.tap(mutable_view_of(h, {rows, config.hidden}), "embed");
  const RowSet& kept = *stream.rows;
  ctx.threads.parallel_for(kept.size(), [&](int64_t row, int) {
    const bf16* in = h + kept.rows[static_cast<size_t>(row)] * config.hidden;
    for (int64_t copy = 0; copy < config.hc_copies; ++copy) {
      std::copy(in, in + config.hidden, stream.x + (row * config.hc_copies + copy) * config.hidden);
      stream.pre[row * config.hc_copies + copy] = copy == 0 ? 1.0f : 0.0f;
    }
  });
  return stream;
}

RotaryTables make_rotary(ExecContext& ctx, const StepPlan& plan,
                         const std::vector<float>& frequencies) {
  const int64_t count = static_cast<int64_t>(frequencies.size()) * plan.rows();
  float* cos = ctx.scratch.allocate<float>(count);
  float* sin = ctx.scratch.allocate<float>(count);
  rope_tables(ctx, plan.positions.data(), plan.rows(), frequencies, cos, sin);
  return {cos, sin};
}

// Room for the longest lists and the most candidate blocks that any layer of the step can have.
Selection make_selection(ExecContext& ctx, const Config& config, const StepPlan& plan) {
  int64_t most = 0;
  for (const StepRun& run : plan.runs) {
    most = std::max(most, run.state->position + run.rows);
  }
  const int64_t blocks =
      config.candidate_source >= 0 ? ceil_div(most, config.candidate_block_size) : 0;
  return {.lists = ctx.scratch.allocate<int32_t>(plan.rows() * std::min(config.index_top_k, most)),
          .candidates = ctx.scratch.allocate<uint8_t>(plan.rows() * blocks)};
}

// Mean of the copies of a draft target layer's input, into its third of taps [rows, targets *
// hidden].
void draft_tap(ExecContext& ctx, const Config& config, const Stream& stream, int64_t target,
               bf16* taps) {
  const Arena::Scope scope(ctx.scratch);
  const int64_t rows = stream.rows->size();
  const int64_t targets = static_cast<int64_t>(config.dspark.target_layers.size());
  bf16* mean = ctx.scratch.allocate<bf16>(rows * config.hidden);
  mean_of_copies(ctx, config.hc_copies, stream.x, rows, config.hidden, mean);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy(mean + row * config.hidden, mean + (row + 1) * config.hidden,
              taps + (row * targets + target) * config.hidden);
  }
}

// Final collapse, norm and the fp32 head for the wanted rows (all rows are normed only for a
// trace).
void head(ExecContext& ctx, const Network& network, const StepPlan& plan, const Stream& stream,
          StepBuffers& buffers) {
  const Config& config = network.config;
  const Arena::Scope scope(ctx.scratch);
  const std::span<const int32_t> present = stream.rows->rows;
  const std::span<const int32_t> wanted = plan.logit_rows;
  const std::span<const int32_t> normed = ctx.trace.is_on() ? present : wanted;
  const int64_t width = config.hc_copies * config.hidden;
  const bf16* x = take_rows(ctx, stream.x, width, present, normed);
  const float* pre = take_rows(ctx, stream.pre, config.hc_copies, present, normed);
  const int64_t rows = std::ssize(normed);
  const int64_t logit_rows = std::ssize(wanted);
  bf16* y = ctx.scratch.allocate<bf16>(rows * config.hidden);
  collapse(ctx, config.hc_copies, x, pre, rows, config.hidden, y);
  rms_norm(ctx, y, network.weights.norm, rows, config.hidden, static_cast<float>(config.norm_eps),
           y);
  ctx.trace.tap(mutable_view_of(y, {rows, config.hidden}), "norm");
  const bf16* last = take_rows(ctx, y, config.hidden, normed, wanted);
  float* logits = buffers.logits.as<float>();
  linear(ctx, last, logit_rows, network.weights.head, logits);
  ctx.trace.tap(mutable_view_of(logits, {logit_rows, config.vocab}), "logits");
}

}  // namespace

void forward(ExecContext& ctx, const Network& network, const StepPlan& plan, StepBuffers& buffers) {
  const Config& config = network.config;
  TESSERA_CHECK(plan.rows() <= buffers.max_rows);
  TESSERA_CHECK(static_cast<int64_t>(plan.logit_rows.size()) <= buffers.max_logit_rows);
  const Arena::Scope scope(ctx.scratch);
  read_ahead(ctx, network, plan);
  Stream stream = embed_rows(ctx, network, plan);
  const int64_t* hashes = engram_ids(ctx, network, plan, buffers);
  const RotaryTables window_rotary = make_rotary(ctx, plan, network.window_frequencies);
  const RotaryTables compressed_rotary = make_rotary(ctx, plan, network.compressed_frequencies);
  const std::vector<int64_t>& targets = config.dspark.target_layers;
  const int64_t tap_width = static_cast<int64_t>(targets.size()) * config.hidden;
  const bool wants_taps = !targets.empty() && ctx.trace.wants("taps");
  bf16* taps = wants_taps ? ctx.scratch.allocate<bf16>(plan.rows() * tap_width) : nullptr;
  Selection selection = make_selection(ctx, config, plan);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    LayerContext c = {ctx,      network,
                      plan,     buffers,
                      layer,    config.ratio(layer) > 0 ? compressed_rotary : window_rotary,
                      selection};
    const std::vector<ByteSpan> held = held_ranges(c);
    const Residency::Use use(ctx.residency, held);
    if (c.weights().engram.has_value()) {
      engram_step(c, hashes, stream);
    }
    for (size_t target = 0; wants_taps && target < targets.size(); ++target) {
      if (targets[target] == layer) {
        draft_tap(ctx, config, stream, static_cast<int64_t>(target), taps);
      }
    }
    block(c, stream);
  }
  head(ctx, network, plan, stream, buffers);
  if (wants_taps) {
    ctx.trace.tap(mutable_view_of(taps, {plan.rows(), tap_width}), "taps");
  }
}

}  // namespace tessera::deepseek_v41
