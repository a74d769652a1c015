// What the parts of one layer share during a step. Internal to the forward pass.
#pragma once

#include <cstring>
#include <span>

#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/step.h"
#include "tensor/exec_context.h"

namespace tessera::deepseek_v41 {

// Values that outlive a layer, compacted to the rows that left it.
struct Stream {
  bf16* x = nullptr;     // [rows, copies, hidden] residual streams
  float* pre = nullptr;  // [rows, copies] mix for the next sub-block
  const RowSet* rows = nullptr;
};

// Index lists and candidate blocks of the last source, compacted like the stream.
struct Selection {
  int32_t* lists = nullptr;  // [rows, list_stride]
  int64_t list_stride = 0;
  const RowSet* list_rows = nullptr;
  uint8_t* candidates = nullptr;  // [rows, blocks]
  const RowSet* candidate_rows = nullptr;
};

// Tables of the step: one row per step row.
struct RotaryTables {
  const float* cos = nullptr;  // [rows, rotary/2]
  const float* sin = nullptr;
};

struct LayerContext {
  ExecContext& ctx;
  const Network& network;
  const StepPlan& plan;
  StepBuffers& buffers;
  int64_t layer;
  RotaryTables rotary;  // of this layer's kind
  Selection& selection;

  const Config& config() const { return network.config; }
  const LayerWeights& weights() const { return network.weights.layers[static_cast<size_t>(layer)]; }
  const LayerRows& rows() const { return plan.layers[static_cast<size_t>(layer)]; }
};

// Rows `to` (a subset of `from`) of a [rows, width] array; the array itself when the sets are one.
template <typename T>
const T* take_rows(ExecContext& ctx, const T* values, int64_t width, std::span<const int32_t> from,
                   std::span<const int32_t> to) {
  if (from.size() == to.size()) {
    return values;
  }
  T* out = ctx.scratch.allocate<T>(std::ssize(to) * width);
  T* next = out;
  size_t at = 0;
  for (const int32_t row : to) {
    while (from[at] != row) {
      ++at;
    }
    std::memcpy(next, values + static_cast<int64_t>(at) * width,
                static_cast<size_t>(width) * sizeof(T));
    next += width;
  }
  return out;
}

template <typename T>
const T* take_rows(ExecContext& ctx, const T* values, int64_t width, const RowSet& from,
                   const RowSet& to) {
  return take_rows(ctx, values, width, std::span<const int32_t>(from.rows),
                   std::span<const int32_t>(to.rows));
}

// Rows of a per-step-row table for a set.
template <typename T>
const T* rows_of_step(ExecContext& ctx, const T* table, int64_t width, const RowSet& set,
                      int64_t step_rows) {
  if (set.size() == step_rows) {
    return table;
  }
  T* out = ctx.scratch.allocate<T>(set.size() * width);
  for (int64_t i = 0; i < set.size(); ++i) {
    std::memcpy(out + i * width, table + set.rows[static_cast<size_t>(i)] * width,
                static_cast<size_t>(width) * sizeof(T));
  }
  return out;
}

// y [out rows, hidden] = attention(x), x [stream rows, hidden] normed. Fills the window rows, the
// page tails and (at index sources) the selection. Specification 7.
void attention(LayerContext& c, const bf16* x, bf16* y);

// New compressed entries and index keys of a kv source, from all stream rows. Specification 7.4.
void compress(LayerContext& c, const bf16* x);

// Index queries, scores, candidates and lists of an index source. qr, x [out rows].
// Specification 7.5, 7.6.
void select_entries(LayerContext& c, const bf16* qr, const bf16* x);

// y [out rows, hidden] = moe(x). Specification 9.
void mixture(LayerContext& c, const bf16* x, bf16* y);

// Adds the memory's contribution to the streams. ids [step rows, memories, columns].
// Specification 6.
void engram_step(LayerContext& c, const int64_t* ids, Stream& stream);

// Hash ids of all step rows: fills buffers.classes, returns [step rows, memories, columns].
int64_t* engram_ids(ExecContext& ctx, const Network& network, const StepPlan& plan,
                    StepBuffers& buffers);

}  // namespace tessera::deepseek_v41
