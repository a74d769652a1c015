// Router and experts of one layer. Specification 9.
#include "ops/moe/moe.h"

#include "models/deepseek_v41/layer_context.h"
#include "models/deepseek_v41/weight_ranges.h"
#include "ops/linear/linear.h"

namespace tessera::deepseek_v41 {
namespace {

void count_picks(LayerContext& c, const int32_t* picks, int64_t active) {
  std::vector<int64_t>& counts = c.buffers.expert_picks;
  const int64_t experts = c.config().experts;
  const RowSet& out = *c.rows().out;
  for (int64_t row = 0; row < out.size() && !counts.empty(); ++row) {
    const size_t step_row = static_cast<size_t>(out.rows[static_cast<size_t>(row)]);
    const int64_t modality = c.plan.types[step_row] >= 0 ? 1 : 0;
    for (int64_t i = 0; i < active; ++i) {
      ++counts[static_cast<size_t>((2 * c.layer + modality) * experts + picks[row * active + i])];
    }
  }
}

// The experts are read while the shared one computes, the next layer's dense weights while they do.
void read_ahead(LayerContext& c, std::span<const int32_t> picks) {
  Residency* residency = c.ctx.residency;
  if (residency == nullptr) {
    return;
  }
  const Weights& weights = c.network.weights;
  const size_t next = static_cast<size_t>(c.layer) + 1;
  residency->expect(expert_ranges(c.weights().ffn, picks));
  residency->expect(next < weights.layers.size() ? dense_ranges(c.config(), weights.layers[next])
                                                 : head_ranges(c.config(), weights));
}

}  // namespace

void mixture(LayerContext& c, const bf16* x, bf16* y) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const MoeWeights& w = c.weights().ffn;
  const Arena::Scope scope(ctx.scratch);
  const RowSet& out = *c.rows().out;
  const int64_t rows = out.size();
  const RouterSpec spec = {.experts = config.experts,
                           .active = config.active_experts,
                           .temperature = static_cast<float>(config.gate_temperature),
                           .scale = static_cast<float>(config.route_scale),
                           .normalise = config.normalise_top_k};
  float* scores = ctx.scratch.allocate<float>(rows * spec.experts);
  linear(ctx, x, rows, w.gate, scores);
  router_scores(ctx, spec, scores, rows);
  ctx.trace.tap(mutable_view_of(scores, {rows, spec.experts}), "layers.", c.layer,
                ".ffn.gate.scores");
  // Rows of an image span, delimiters included, are picked with their own bias.
  const std::byte** bias = ctx.scratch.allocate<const std::byte*>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t step_row = out.rows[static_cast<size_t>(row)];
    bias[row] = c.plan.types[static_cast<size_t>(step_row)] >= 0 ? w.bias_vl : w.bias;
  }
  int32_t* picks = ctx.scratch.allocate<int32_t>(rows * spec.active);
  float* weights = ctx.scratch.allocate<float>(rows * spec.active);
  router_picks(ctx, spec, scores, bias, rows, picks);
  ctx.trace.tap(mutable_view_of(picks, {rows, spec.active}), "layers.", c.layer, ".ffn.gate.topk");
  count_picks(c, picks, spec.active);
  read_ahead(c, {picks, static_cast<size_t>(rows * spec.active)});
  router_weights(ctx, spec, scores, picks, rows, weights);
  ctx.trace.tap(mutable_view_of(weights, {rows, spec.active}), "layers.", c.layer,
                ".ffn.gate.weights");
  moe(ctx, {.x = x,
            .picks = picks,
            .weights = weights,
            .rows = rows,
            .active = spec.active,
            .width = config.hidden,
            .ffn_dim = config.ffn_dim,
            .limit = static_cast<float>(config.swiglu_limit),
            .experts = w.experts,
            .shared = &w.shared,
            .y = y});
}

}  // namespace tessera::deepseek_v41
