// Which compressed entries a query reads. Specification 7.5, 7.6 and 7.8.
#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "models/deepseek_v41/layer_context.h"
#include "ops/indexer/indexer.h"
#include "ops/linear/linear.h"
#include "ops/quantize/quantize.h"
#include "ops/rope/rope.h"

namespace tessera::deepseek_v41 {
namespace {

struct Queries {
  bf16* q;        // [rows, index_heads, index_head_dim]
  bf16* weights;  // [rows, index_heads]
};

// q = quantised( rotated( wq_b(qr) ) );  weights = bf16( bf16(x . weights_proj^T) * c )
Queries index_queries(LayerContext& c, const bf16* qr, const bf16* x) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const IndexerWeights& w = *c.weights().attn.indexer;
  const RowSet& out = *c.rows().out;
  const int64_t rows = out.size();
  const int64_t heads = config.index_heads;
  const int64_t width = config.index_head_dim;
  const Queries made = {ctx.scratch.allocate<bf16>(rows * heads * width),
                        ctx.scratch.allocate<bf16>(rows * heads)};
  linear(ctx, qr, rows, w.wq_b, made.q);
  const int64_t half = config.rotary_dim / 2;
  rotate_adjacent(ctx, made.q, rows, heads, width, config.rotary_dim,
                  rows_of_step(ctx, c.rotary.cos, half, out, c.plan.rows()),
                  rows_of_step(ctx, c.rotary.sin, half, out, c.plan.rows()), Rotation::forward);
  quantize_dequantize(ctx, GroupFormat::e2m1_e8m0_32, made.q, rows * heads, width, made.q);
  ctx.trace.tap(mutable_view_of(made.q, {rows, heads, width}), "layers.", c.layer,
                ".attn.indexer.q");
  linear(ctx, x, rows, w.weights_proj, made.weights);
  const float factor = static_cast<float>((1.0 / std::sqrt(static_cast<double>(width))) *
                                          (1.0 / std::sqrt(static_cast<double>(heads))));
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t h = 0; h < heads; ++h) {
      bf16& weight = made.weights[row * heads + h];
      weight = to_bf16(to_float(weight) * factor);
    }
  });
  ctx.trace.tap(mutable_view_of(made.weights, {rows, heads}), "layers.", c.layer,
                ".attn.indexer.weights");
  return made;
}

// Key table of a run. In the reference's decode a source whose group is still open scores against
// the keys that were published last (Parity::reference_index_slot); by default against its own.
const PageTable* keys_of(const LayerContext& c, const StepRun& run, int64_t source) {
  const int64_t ratio = c.config().ratio(c.layer);
  const int64_t start = run.state->position;
  const bool completes = (start + run.rows) / ratio > start / ratio;
  if (c.network.parity.reference_index_slot && !completes && start > 0 &&
      run.state->index_slot >= 0) {
    source = run.state->index_slot;
  }
  return &run.state->index_keys[static_cast<size_t>(source)];
}

// Tap of the candidate blocks, as 0/1 per entry. A sink that writes sets whole blocks.
void tap_candidates(LayerContext& c, int64_t rows, int64_t stride) {
  ExecContext& ctx = c.ctx;
  if (!ctx.trace.wants("layers.", c.layer, ".attn.indexer.candidates")) {
    return;
  }
  const Arena::Scope scope(ctx.scratch);
  const int64_t block = c.config().candidate_block_size;
  const int64_t blocks = ceil_div(stride, block);
  uint8_t* entries = ctx.scratch.allocate<uint8_t>(rows * stride);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < stride; ++j) {
      entries[row * stride + j] = c.selection.candidates[row * blocks + j / block];
    }
  }
  if (ctx.trace.tap(mutable_view_of(entries, {rows, stride}), "layers.", c.layer,
                    ".attn.indexer.candidates")) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t b = 0; b < blocks; ++b) {
        c.selection.candidates[row * blocks + b] = entries[row * stride + b * block];
      }
    }
  }
}

// Scores of all rows, masked by visibility and (behind the candidate source) by its blocks.
float* masked_scores(LayerContext& c, const Queries& queries, const int32_t* visible,
                     int64_t stride) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const RowSet& out = *c.rows().out;
  const int64_t rows = out.size();
  const size_t count = c.plan.runs.size();
  IndexRun* runs = ctx.scratch.allocate<IndexRun>(static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    runs[i] = {out.run_begin[i], out.run_begin[i + 1] - out.run_begin[i],
               keys_of(c, c.plan.runs[i], config.kv_source_of(c.layer)), visible};
  }
  float* scores = ctx.scratch.allocate<float>(rows * stride);
  index_scores(ctx,
               {.q = queries.q,
                .weights = queries.weights,
                .heads = config.index_heads,
                .head_dim = config.index_head_dim,
                .rounding = c.network.parity.index_scores,
                .stride = stride,
                .scores = scores},
               {runs, count});
  if (config.candidate_source >= 0 && c.layer > config.candidate_source) {
    const int64_t blocks = ceil_div(stride, config.candidate_block_size);
    const uint8_t* candidates =
        take_rows(ctx, c.selection.candidates, blocks, *c.selection.candidate_rows, out);
    mask_by_candidates(ctx, candidates, rows, stride, config.candidate_block_size, scores);
  }
  ctx.trace.tap(mutable_view_of(scores, {rows, stride}), "layers.", c.layer,
                ".attn.indexer.scores");
  return scores;
}

}  // namespace

void select_entries(LayerContext& c, const bf16* qr, const bf16* x) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const Arena::Scope scope(ctx.scratch);
  const RowSet& out = *c.rows().out;
  const int64_t rows = out.size();
  const int64_t ratio = config.ratio(c.layer);
  int64_t stride = 0;  // entries that exist at the end of the step, of the longest sequence
  for (const StepRun& run : c.plan.runs) {
    stride = std::max(stride, (run.state->position + run.rows) / ratio);
  }
  Selection& s = c.selection;
  s.list_stride = std::min(config.index_top_k, stride);
  s.list_rows = &out;
  // Queries are made even when nothing is visible yet only if someone looks at them.
  const bool takes_all = stride <= config.index_top_k && !ctx.trace.is_on();
  if (stride == 0 && !ctx.trace.is_on()) {
    return;
  }
  int32_t* visible = ctx.scratch.allocate<int32_t>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position =
        c.plan.positions[static_cast<size_t>(out.rows[static_cast<size_t>(row)])];
    visible[row] = static_cast<int32_t>((position + 1) / ratio);
  }
  if (takes_all) {
    // Every visible entry is selected whatever its score, and no candidate block can be left out
    // unless fewer blocks are kept than top_k entries need.
    const bool blocks_bind =
        config.candidate_source >= 0 && c.layer >= config.candidate_source &&
        ceil_div(stride, config.candidate_block_size) > config.candidate_blocks;
    if (!blocks_bind) {
      if (c.layer == config.candidate_source) {
        const int64_t blocks = ceil_div(stride, config.candidate_block_size);
        std::fill_n(s.candidates, rows * blocks, uint8_t{1});
        s.candidate_rows = &out;
      }
      select_all(ctx, visible, rows, s.list_stride, s.lists);
      return;
    }
  }
  const Queries queries = index_queries(c, qr, x);
  if (stride == 0) {
    return;
  }
  float* scores = masked_scores(c, queries, visible, stride);
  if (c.layer == config.candidate_source) {
    candidate_blocks(ctx, scores, visible, rows, stride, config.candidate_block_size,
                     config.candidate_blocks, s.candidates);
    s.candidate_rows = &out;
    tap_candidates(c, rows, stride);
  }
  select_top_k(ctx, scores, rows, stride, s.list_stride, s.lists);
  ctx.trace.tap(mutable_view_of(s.lists, {rows, s.list_stride}), "layers.", c.layer,
                ".attn.indexer.topk");
}

}  // namespace tessera::deepseek_v41
