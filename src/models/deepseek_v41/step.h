// One step: rows of one or more sequences in, logits and fresh state rows out. The plan is the only
// input of `forward` besides the model, the states and the buffers.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "models/deepseek_v41/state.h"
#include "tensor/tensor.h"

namespace tessera::deepseek_v41 {

// Consecutive new positions of one sequence: state->position, state->position + 1, ...
struct StepRun {
  const SequenceState* state = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
};

// Rows of the step that a layer works on, ascending, with the place where each run's rows begin.
struct RowSet {
  std::vector<int32_t> rows;
  std::vector<int64_t> run_begin;  // [runs + 1]

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

// Rows of one layer: those whose stream enters (`stream`), those whose window key/value row is
// made, and those that leave. out is a subset of window, window of stream; stream of a layer is out
// of the one before. Without any saving all three are all rows.
struct LayerRows {
  const RowSet* stream = nullptr;
  const RowSet* window = nullptr;
  const RowSet* out = nullptr;
};

struct StepPlan {
  std::vector<StepRun> runs;
  std::vector<int64_t> positions;  // [rows]
  std::vector<int32_t> ids;        // [rows] token ids
  std::vector<int8_t> types;       // [rows] span.h: -1 text, 0 start, 1 image, 2 newline, 3 end
  std::vector<const std::byte*>
      embeddings;                   // [rows] bf16 [hidden] instead of the table's row, or nullptr
  std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending
  std::vector<LayerRows> layers;    // [layers]
  std::deque<RowSet> sets;          // what `layers` points to, the first used_sets of them
  size_t used_sets = 0;

  // An empty plan that keeps its memory for the next step.
  void clear();
  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

// Adds the rows of one sequence. types may be empty (all text); embeddings may be empty (no image
// rows).
void add_run(StepPlan& plan, const SequenceState& state, std::span<const int32_t> ids,
             std::span<const int8_t> types, std::span<const std::byte* const> embeddings);

// Every layer computes every row.
void plan_all_rows(StepPlan& plan, const Config& config);

// Decoder-half rows that no wanted output reads are left out. Each run has one end or more: a
// position behind its last known token (which may lie beyond the step), and the number of last rows
// whose final output is wanted there. The state is complete at every end. Row formula
// (docs/engine.md): behind the last kv source s, with window W and n layers, an end needs
//   out(L) = [max(0, e - ((W-1)*(n-1-L) + k)), e)     in(L) = [max(0, e - ((W-1)*(n-L) + k)), e)
// and several ends the union of theirs.
struct RowEnd {
  int64_t position = 0;  // e
  // k. 0: only what the next position reads, so the ring of the last layer lacks the slot that this
  // position overwrites; from 1 on the state equals the full pass's in every byte.
  int64_t tail = 1;
  size_t run = 0;
};
void plan_needed_rows(StepPlan& plan, const Config& config, std::span<const RowEnd> ends);

// Whether plan_needed_rows can reach this end from the state: no row that it computes reads a ring
// row that was left out before. True of every complete state, and of any state that at least
// (W-1)*(n-s) + k tokens follow.
bool can_reach(const Config& config, const SequenceState& state, int64_t position, int64_t tail);

// The last kv source, s of the formula; 0 without one.
int64_t first_thinned_layer(const Config& config);

// Rows that leave the layers of a planned step, summed over the layers.
int64_t layer_rows(const StepPlan& plan);

// Fresh rows of a step, until commit takes them over. Sized once for a maximum number of rows.
struct StepBuffers {
  StepBuffers(const Config& config, int64_t max_rows, int64_t max_logit_rows);

  int64_t max_rows;
  int64_t max_logit_rows;
  std::vector<std::byte> window_rows;  // [layers][max_rows] packed
  std::vector<float> group_rows;       // [sources][max_rows][2][head_dim]: kv, score (ratio > 1)
  std::vector<int32_t> classes;        // [max_rows] token classes
  Tensor logits;                       // f32 [max_logit_rows, vocab]
  // How often each expert was picked, [layers][rows of text, of pictures][experts]; empty: not
  // counted. Rows that are left out are not in it.
  std::vector<int64_t> expert_picks;

  int64_t bytes() const;

  // Begins to count.
  void count_experts(const Config& config);

  std::byte* window_row(const Config& config, int64_t layer, int64_t row);
  float* group_row(const Config& config, int64_t source, int64_t row);
};

// Takes over the first `rows` of a run's fresh rows (fewer than the run has: rejected drafts, a
// cancelled step). The run's state is this `state`.
void commit(const Config& config, const StepPlan& plan, size_t run, int64_t rows,
            StepBuffers& buffers, SequenceState& state);

}  // namespace tessera::deepseek_v41
