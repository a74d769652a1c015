// CSA2 attention: a sliding window plus a few compressed entries per query. Specification 7.
#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "models/deepseek_v41/layer_context.h"
#include "ops/compressor/compressor.h"
#include "ops/linear/linear.h"
#include "ops/quantize/quantize.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::deepseek_v41 {
namespace {

// cos and sin of the rows of a set.
RotaryTables rotary_of(LayerContext& c, const RowSet& set) {
  const int64_t half = c.config().rotary_dim / 2;
  return {rows_of_step(c.ctx, c.rotary.cos, half, set, c.plan.rows()),
          rows_of_step(c.ctx, c.rotary.sin, half, set, c.plan.rows())};
}

// kv = quantised( rotated( rmsnorm(wkv(x), kv_norm) ) ) of the window rows, packed into the step
// buffers.
void make_window_rows(LayerContext& c, const bf16* x) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const AttentionWeights& w = c.weights().attn;
  const Arena::Scope scope(ctx.scratch);
  const RowSet& rows = *c.rows().window;
  const int64_t count = rows.size();
  const int64_t width = config.head_dim;
  const bf16* in = take_rows(ctx, x, config.hidden, *c.rows().stream, rows);
  bf16* kv = ctx.scratch.allocate<bf16>(count * width);
  linear(ctx, in, count, w.wkv, kv);
  rms_norm(ctx, kv, w.kv_norm, count, width, static_cast<float>(config.norm_eps), kv);
  const RotaryTables t = rotary_of(c, rows);
  rotate_adjacent(ctx, kv, count, 1, width, config.rotary_dim, t.cos, t.sin, Rotation::forward);
  quantize_dequantize(ctx, GroupFormat::e4m3_e8m0_32, kv, count, width, kv);
  ctx.trace.tap(mutable_view_of(kv, {count, width}), "layers.", c.layer, ".attn.kv");
  ctx.threads.parallel_for(count, [&](int64_t row, int) {
    std::byte* packed = c.buffers.window_row(config, c.layer, rows.rows[static_cast<size_t>(row)]);
    pack_row(GroupFormat::e4m3_e8m0_32, kv + row * width, width, packed, packed + width);
  });
}

// Runs of the compact query rows, with the keys they read.
std::span<const AttentionRun> attention_runs(LayerContext& c) {
  const Config& config = c.config();
  const RowSet& out = *c.rows().out;
  const int64_t source = config.ratio(c.layer) > 0 ? config.kv_source_of(c.layer) : -1;
  const size_t count = c.plan.runs.size();
  AttentionRun* runs = c.ctx.scratch.allocate<AttentionRun>(static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const StepRun& run = c.plan.runs[i];
    const int64_t begin = out.run_begin[i];
    if (begin < out.run_begin[i + 1]) {  // what it reads was computed
      const int64_t first =
          c.plan.positions[static_cast<size_t>(out.rows[static_cast<size_t>(begin)])];
      const int64_t first_read = std::max<int64_t>(first - config.window + 1, 0);
      TESSERA_CHECK(first_read >= run.state->position ||
                    run.state->ring_begin[static_cast<size_t>(c.layer)] <= first_read);
    }
    runs[i] = {.first_row = begin,
               .rows = out.run_begin[i + 1] - begin,
               .ring = run.state->rings.data() + c.layer * ring_layer_bytes(config),
               .fresh_start = run.state->position,
               .fresh = c.buffers.window_row(config, c.layer, run.first_row),
               .compressed = source >= 0 ? &run.state->kv[static_cast<size_t>(source)] : nullptr};
  }
  return {runs, count};
}

// y = wo_b( concat_g( wo_a[g] . o[heads of g] ) ). o [rows, heads * head_dim]
void project_output(LayerContext& c, const bf16* o, int64_t rows, bf16* y) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const AttentionWeights& w = c.weights().attn;
  const Arena::Scope scope(ctx.scratch);
  const int64_t groups = config.o_groups;
  const int64_t inputs = config.heads * config.head_dim / groups;
  bf16* grouped = ctx.scratch.allocate<bf16>(rows * groups * inputs);  // [groups, rows, inputs]
  bf16* latent = ctx.scratch.allocate<bf16>(groups * rows * config.o_rank);  // [groups, rows, rank]
  bf16* u = ctx.scratch.allocate<bf16>(rows * groups * config.o_rank);       // [rows, groups, rank]
  LinearCall* calls = ctx.scratch.allocate<LinearCall>(groups);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t g = 0; g < groups; ++g) {
      std::copy_n(o + (row * groups + g) * inputs, inputs, grouped + (g * rows + row) * inputs);
    }
  });
  for (int64_t g = 0; g < groups; ++g) {
    calls[g] = {grouped + g * rows * inputs, rows, &w.wo_a[static_cast<size_t>(g)],
                latent + g * rows * config.o_rank, DType::bf16};
  }
  linear_many(ctx, {calls, static_cast<size_t>(groups)});
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t g = 0; g < groups; ++g) {
      std::copy_n(latent + (g * rows + row) * config.o_rank, config.o_rank,
                  u + (row * groups + g) * config.o_rank);
    }
  });
  linear(ctx, u, rows, w.wo_b, y);
}

// Groups of a source that this step completes, in run order.
struct NewGroups {
  int64_t size = 0;
  int64_t* run;  // [size] of each, and its entry number
  int64_t* index;
  int64_t* positions;  // first position of each: where it is rotated
};

NewGroups new_groups(LayerContext& c, int64_t ratio) {
  const int64_t most = c.plan.rows();
  NewGroups groups = {.size = 0,
                      .run = c.ctx.scratch.allocate<int64_t>(most),
                      .index = c.ctx.scratch.allocate<int64_t>(most),
                      .positions = c.ctx.scratch.allocate<int64_t>(most)};
  for (size_t i = 0; i < c.plan.runs.size(); ++i) {
    const StepRun& run = c.plan.runs[i];
    const int64_t start = run.state->position;
    for (int64_t j = start / ratio; j < (start + run.rows) / ratio; ++j) {
      groups.run[groups.size] = static_cast<int64_t>(i);
      groups.index[groups.size] = j;
      groups.positions[groups.size] = j * ratio;
      ++groups.size;
    }
  }
  return groups;
}

// Latents of the completed groups [groups, head_dim], normed, not rotated.
void make_latents(LayerContext& c, const bf16* x, const NewGroups& groups, bf16* latents) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const CompressorWeights& w = *c.weights().attn.compressor;
  const Arena::Scope scope(ctx.scratch);
  const int64_t ratio = config.ratio(c.layer);
  const int64_t width = config.head_dim;
  const int64_t rows = c.plan.rows();
  const int64_t source = config.kv_source_of(c.layer);
  if (ratio == 1) {
    linear(ctx, x, rows, w.wkv, latents);
  } else {
    float* kv = ctx.scratch.allocate<float>(rows * width);
    float* score = ctx.scratch.allocate<float>(rows * width);
    linear(ctx, x, rows, w.wkv, kv);
    linear(ctx, x, rows, w.wgate, score);
    ctx.threads.parallel_for(rows, [&](int64_t row, int) {
      float* group_row = c.buffers.group_row(config, source, row);
      std::copy_n(kv + row * width, width, group_row);
      std::copy_n(score + row * width, width, group_row + width);
    });
    const int64_t pooled = groups.size * ratio;
    const float** kv_rows = ctx.scratch.allocate<const float*>(pooled);
    const float** score_rows = ctx.scratch.allocate<const float*>(pooled);
    for (int64_t g = 0; g < groups.size; ++g) {
      const StepRun& run = c.plan.runs[static_cast<size_t>(groups.run[g])];
      const int64_t start = run.state->position;
      for (int64_t r = 0; r < ratio; ++r) {
        const int64_t p = groups.positions[g] + r;
        const float* row =
            p >= start ? c.buffers.group_row(config, source, run.first_row + p - start)
                       : run.state->open_groups.data() + open_group_offset(config, source, r);
        kv_rows[g * ratio + r] = row;
        score_rows[g * ratio + r] = row + width;
      }
    }
    const size_t count = static_cast<size_t>(pooled);
    pool_groups(ctx, {kv_rows, count}, {score_rows, count}, ratio, width, latents);
  }
  rms_norm(ctx, latents, w.norm, groups.size, width, static_cast<float>(config.norm_eps), latents);
}

}  // namespace

void compress(LayerContext& c, const bf16* x) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const CompressorWeights& w = *c.weights().attn.compressor;
  const Arena::Scope scope(ctx.scratch);
  // The rows of every position are needed here: a kv source's stream is complete by construction.
  TESSERA_CHECK(c.rows().stream->size() == c.plan.rows());
  const int64_t source = config.kv_source_of(c.layer);
  const NewGroups groups = new_groups(c, config.ratio(c.layer));
  const int64_t count = groups.size;
  const int64_t width = config.head_dim;
  const int64_t key_width = config.index_head_dim;
  const float eps = static_cast<float>(config.norm_eps);
  bf16* latents = ctx.scratch.allocate<bf16>(count * width);
  make_latents(c, x, groups, latents);
  if (count == 0) {
    return;
  }
  ctx.trace.tap(mutable_view_of(latents, {count, width}), "layers.", c.layer,
                ".attn.compressor.latent");
  const int64_t half = config.rotary_dim / 2;
  float* cos = ctx.scratch.allocate<float>(count * half);
  float* sin = ctx.scratch.allocate<float>(count * half);
  rope_tables(ctx, groups.positions, count, c.network.compressed_frequencies, cos, sin);
  // The index key comes from the latent before it is rotated.
  bf16* keys = ctx.scratch.allocate<bf16>(count * key_width);
  linear(ctx, latents, count, w.wk, keys);
  rms_norm(ctx, keys, w.k_norm, count, key_width, eps, keys);
  rotate_adjacent(ctx, keys, count, 1, key_width, config.rotary_dim, cos, sin, Rotation::forward);
  quantize_dequantize(ctx, GroupFormat::e2m1_e8m0_32, keys, count, key_width, keys);
  ctx.trace.tap(mutable_view_of(keys, {count, key_width}), "layers.", c.layer, ".attn.indexer.k");
  rotate_adjacent(ctx, latents, count, 1, width, config.rotary_dim, cos, sin, Rotation::forward);
  quantize_dequantize(ctx, GroupFormat::e2m1_e4m3_16, latents, count, width, latents);
  ctx.trace.tap(mutable_view_of(latents, {count, width}), "layers.", c.layer,
                ".attn.compressor.kv");
  ctx.threads.parallel_for(count, [&](int64_t g, int) {
    const SequenceState& state = *c.plan.runs[static_cast<size_t>(groups.run[g])].state;
    const PageTable& kv = state.kv[static_cast<size_t>(source)];
    const PageTable& index_keys = state.index_keys[static_cast<size_t>(source)];
    const int64_t j = groups.index[g];
    pack_row(GroupFormat::e2m1_e4m3_16, latents + g * width, width, kv.codes(j), kv.scales(j));
    pack_row(GroupFormat::e2m1_e8m0_32, keys + g * key_width, key_width, index_keys.codes(j),
             index_keys.scales(j));
  });
}

void attention(LayerContext& c, const bf16* x, bf16* y) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const AttentionWeights& w = c.weights().attn;
  const Arena::Scope scope(ctx.scratch);
  const RowSet& out = *c.rows().out;
  const int64_t rows = out.size();
  const int64_t width = config.heads * config.head_dim;
  if (w.compressor.has_value()) {
    compress(c, x);
  }
  make_window_rows(c, x);
  if (rows == 0) {
    return;
  }
  const bf16* in = take_rows(ctx, x, config.hidden, *c.rows().stream, out);
  // qr = rmsnorm(wq_a(x), q_norm);  q = rotated(wq_b(qr)): no norm per head
  bf16* qr = ctx.scratch.allocate<bf16>(rows * config.q_rank);
  linear(ctx, in, rows, w.wq_a, qr);
  rms_norm(ctx, qr, w.q_norm, rows, config.q_rank, static_cast<float>(config.norm_eps), qr);
  ctx.trace.tap(mutable_view_of(qr, {rows, config.q_rank}), "layers.", c.layer, ".attn.qr");
  bf16* q = ctx.scratch.allocate<bf16>(rows * width);
  linear(ctx, qr, rows, w.wq_b, q);
  const RotaryTables t = rotary_of(c, out);
  rotate_adjacent(ctx, q, rows, config.heads, config.head_dim, config.rotary_dim, t.cos, t.sin,
                  Rotation::forward);
  ctx.trace.tap(mutable_view_of(q, {rows, config.heads, config.head_dim}), "layers.", c.layer,
                ".attn.q");
  if (w.indexer.has_value()) {
    select_entries(c, qr, in);
  }
  const bool has_list = config.ratio(c.layer) > 0 && c.selection.list_stride > 0;
  const std::span<const AttentionRun> runs = attention_runs(c);
  bf16* o = ctx.scratch.allocate<bf16>(rows * width);
  const AttentionArgs args = {
      .q = q,
      .positions = rows_of_step(ctx, c.plan.positions.data(), 1, out, c.plan.rows()),
      .sinks = w.sink,
      .lists = has_list ? take_rows(ctx, c.selection.lists, c.selection.list_stride,
                                    *c.selection.list_rows, out)
                        : nullptr,
      .list_stride = has_list ? c.selection.list_stride : 0,
      .heads = config.heads,
      .head_dim = config.head_dim,
      .window = config.window,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
      .o = o};
  sparse_attention(ctx, args, runs);
  rotate_adjacent(ctx, o, rows, config.heads, config.head_dim, config.rotary_dim, t.cos, t.sin,
                  Rotation::inverse);
  ctx.trace.tap(mutable_view_of(o, {rows, config.heads, config.head_dim}), "layers.", c.layer,
                ".attn.o");
  project_output(c, o, rows, y);
}

}  // namespace tessera::deepseek_v41
