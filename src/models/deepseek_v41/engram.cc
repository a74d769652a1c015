// Engram: hashed n-gram memories added to the streams of two layers. Specification 6.
#include "ops/engram/engram.h"

#include "models/deepseek_v41/layer_context.h"
#include "models/deepseek_v41/weight_ranges.h"
#include "ops/linear/linear.h"

namespace tessera::deepseek_v41 {
namespace {

// Class of the position `back` places before row `row` of a run; dead before the sequence start.
int32_t class_before(const StepRun& run, const StepBuffers& buffers, int64_t row, int64_t back) {
  if (back <= row) {
    return buffers.classes[static_cast<size_t>(run.first_row + row - back)];
  }
  const size_t at = static_cast<size_t>(back - row - 1);
  return at < run.state->history.size() ? run.state->history[at] : kDeadClass;
}

}  // namespace

int64_t* engram_ids(ExecContext& ctx, const Network& network, const StepPlan& plan,
                    StepBuffers& buffers) {
  if (network.memories.empty()) {
    return nullptr;
  }
  const int64_t memories = static_cast<int64_t>(network.memories.size());
  const int64_t columns = network.memories.front().columns();
  for (int64_t row = 0; row < plan.rows(); ++row) {
    const size_t at = static_cast<size_t>(row);
    buffers.classes[at] =
        plan.types[at] >= 0 ? kDeadClass : network.token_classes[static_cast<size_t>(plan.ids[at])];
  }
  int64_t* ids = ctx.scratch.allocate<int64_t>(plan.rows() * memories * columns);
  for (const StepRun& run : plan.runs) {
    ctx.threads.parallel_for(run.rows, [&](int64_t row, int) {
      int32_t history[kMaxNgram];
      for (int64_t back = 0; back < network.config.engram.max_ngram; ++back) {
        history[back] = class_before(run, buffers, row, back);
      }
      for (int64_t m = 0; m < memories; ++m) {
        engram_rows(network.memories[static_cast<size_t>(m)], history,
                    ids + ((run.first_row + row) * memories + m) * columns);
      }
    });
  }
  ctx.trace.tap(mutable_view_of(ids, {plan.rows(), memories, columns}), "engram.ids");
  if (ctx.residency != nullptr) {
    expect_engram_rows(*ctx.residency, network, plan.rows(), ids);
  }
  return ids;
}

void engram_step(LayerContext& c, const int64_t* ids, Stream& stream) {
  ExecContext& ctx = c.ctx;
  const Config& config = c.config();
  const EngramWeights& w = *c.weights().engram;
  const Arena::Scope scope(ctx.scratch);
  const int64_t memories = static_cast<int64_t>(c.network.memories.size());
  const int64_t memory = config.engram_index(c.layer);
  const int64_t columns = config.engram.columns();
  const int64_t width = config.engram.head_dim;
  const RowSet& set = *stream.rows;
  const int64_t rows = set.size();
  int64_t* row_ids = ctx.scratch.allocate<int64_t>(rows * columns);
  uint8_t* is_dead = ctx.scratch.allocate<uint8_t>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t step_row = set.rows[static_cast<size_t>(row)];
    const int64_t* in = ids + (step_row * memories + memory) * columns;
    std::copy(in, in + columns, row_ids + row * columns);
    is_dead[row] = c.plan.types[static_cast<size_t>(step_row)] >= 0 ? 1 : 0;
  }
  bf16* entries = ctx.scratch.allocate<bf16>(rows * columns * width);
  engram_lookup(ctx, w.table, row_ids, rows, columns, entries);
  bf16* kv = ctx.scratch.allocate<bf16>(rows * (config.hc_copies + 1) * config.hidden);
  linear(ctx, entries, rows, w.wkv, kv);
  engram_gate(ctx, {.stream = stream.x,
                    .kv = kv,
                    .q_weight = w.q_weight,
                    .k_weight = w.k_weight,
                    .is_dead = is_dead,
                    .rows = rows,
                    .copies = config.hc_copies,
                    .width = config.hidden,
                    .eps = static_cast<float>(config.norm_eps)});
  ctx.trace.tap(mutable_view_of(stream.x, {rows, config.hc_copies, config.hidden}), "layers.",
                c.layer, ".engram");
}

}  // namespace tessera::deepseek_v41
