#include "models/deepseek_v41/step.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::deepseek_v41 {
namespace {

// The set of all rows whose position p of run i satisfies keep(i, p).
template <typename Keep>
const RowSet* make_set(StepPlan& plan, const Keep& keep) {
  if (plan.used_sets == plan.sets.size()) {
    plan.sets.emplace_back();
  }
  RowSet& set = plan.sets[plan.used_sets++];
  set.rows.clear();
  set.run_begin.clear();
  for (size_t run = 0; run < plan.runs.size(); ++run) {
    set.run_begin.push_back(set.size());
    for (int64_t i = 0; i < plan.runs[run].rows; ++i) {
      const int64_t row = plan.runs[run].first_row + i;
      if (keep(run, plan.positions[static_cast<size_t>(row)])) {
        set.rows.push_back(static_cast<int32_t>(row));
      }
    }
  }
  set.run_begin.push_back(set.size());
  return &set;
}

// First position of the run's rows that a layer has made without a gap up to position `end`.
int64_t made_from(const StepPlan& plan, const RowSet& made, size_t run_index, int64_t end) {
  const StepRun& run = plan.runs[run_index];
  const auto first = made.rows.begin() + made.run_begin[run_index];
  const int64_t start = run.state->position;
  int64_t row = run.first_row + end - start;  // behind the last one
  auto last = std::lower_bound(first, made.rows.begin() + made.run_begin[run_index + 1], row);
  while (last != first && *(last - 1) == row - 1) {
    --last;
    --row;
  }
  return start + row - run.first_row;
}

}  // namespace

int64_t first_thinned_layer(const Config& config) {
  return config.kv_sources.empty() ? 0 : config.kv_sources.back();
}

bool can_reach(const Config& config, const SequenceState& state, int64_t position, int64_t tail) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool is_thinned = layer >= first_thinned_layer(config);
    const int64_t reach = (config.window - 1) * (config.layers - 1 - layer) + tail;
    const int64_t first_out = std::max(state.position, is_thinned ? position - reach : int64_t{0});
    const int64_t first_read = std::max<int64_t>(first_out - (config.window - 1), 0);
    const bool reads_ring = first_out < position && first_read < state.position;
    if (reads_ring && state.ring_begin[static_cast<size_t>(layer)] > first_read) {
      return false;
    }
  }
  return true;
}

void StepPlan::clear() {
  runs.clear();
  positions.clear();
  ids.clear();
  types.clear();
  embeddings.clear();
  logit_rows.clear();
  layers.clear();
  used_sets = 0;
}

void add_run(StepPlan& plan, const SequenceState& state, std::span<const int32_t> ids,
             std::span<const int8_t> types, std::span<const std::byte* const> embeddings) {
  TESSERA_CHECK(types.empty() || types.size() == ids.size());
  TESSERA_CHECK(embeddings.empty() || embeddings.size() == ids.size());
  plan.runs.push_back({&state, plan.rows(), static_cast<int64_t>(ids.size())});
  for (size_t i = 0; i < ids.size(); ++i) {
    plan.positions.push_back(state.position + static_cast<int64_t>(i));
    plan.ids.push_back(ids[i]);
    plan.types.push_back(types.empty() ? int8_t{-1} : types[i]);
    plan.embeddings.push_back(embeddings.empty() ? nullptr : embeddings[i]);
  }
}

void plan_all_rows(StepPlan& plan, const Config& config) {
  const RowSet* all = make_set(plan, [](size_t, int64_t) { return true; });
  plan.layers.assign(static_cast<size_t>(config.layers), {all, all, all});
}

void plan_needed_rows(StepPlan& plan, const Config& config, std::span<const RowEnd> ends) {
  for (size_t run = 0; run < plan.runs.size(); ++run) {
    TESSERA_CHECK(
        std::any_of(ends.begin(), ends.end(), [run](const RowEnd& end) { return end.run == run; }));
  }
  const int64_t source = first_thinned_layer(config);
  const RowSet* all = make_set(plan, [](size_t, int64_t) { return true; });
  // Rows of the last `reach + k` positions before any of a run's ends.
  const auto last_rows = [&](int64_t reach) {
    return make_set(plan, [&, reach](size_t run, int64_t position) {
      return std::any_of(ends.begin(), ends.end(), [&](const RowEnd& end) {
        return end.run == run && position < end.position &&
               position >= end.position - (reach + end.tail);
      });
    });
  };
  const RowSet* before = all;
  if (config.kv_sources.empty()) {
    before = last_rows((config.window - 1) * config.layers);
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (layer < source) {
      plan.layers.push_back({all, all, all});
      continue;
    }
    const RowSet* window =
        layer == source ? last_rows((config.window - 1) * (config.layers - layer)) : before;
    const RowSet* out = last_rows((config.window - 1) * (config.layers - 1 - layer));
    plan.layers.push_back({before, window, out});
    before = out;
  }
}

int64_t layer_rows(const StepPlan& plan) {
  int64_t rows = 0;
  for (const LayerRows& layer : plan.layers) {
    rows += layer.out->size();
  }
  return rows;
}

StepBuffers::StepBuffers(const Config& config, int64_t most_rows, int64_t most_logit_rows)
    : max_rows(most_rows),
      max_logit_rows(most_logit_rows),
      window_rows(
          static_cast<size_t>(config.layers * most_rows * window_row_bytes(config.head_dim))),
      group_rows(config.kv_sources.size() * static_cast<size_t>(most_rows * 2 * config.head_dim)),
      classes(static_cast<size_t>(most_rows)),
      logits(DType::f32, {most_logit_rows, config.vocab}) {}

int64_t StepBuffers::bytes() const {
  return static_cast<int64_t>(window_rows.size() + group_rows.size() * sizeof(float) +
                              classes.size() * sizeof(int32_t) +
                              expert_picks.size() * sizeof(int64_t)) +
         logits.bytes();
}

void StepBuffers::count_experts(const Config& config) {
  expert_picks.assign(static_cast<size_t>(config.layers * 2 * config.experts), 0);
}

std::byte* StepBuffers::window_row(const Config& config, int64_t layer, int64_t row) {
  return window_rows.data() + (layer * max_rows + row) * window_row_bytes(config.head_dim);
}

float* StepBuffers::group_row(const Config& config, int64_t source, int64_t row) {
  return group_rows.data() + (source * max_rows + row) * 2 * config.head_dim;
}

void commit(const Config& config, const StepPlan& plan, size_t run_index, int64_t rows,
            StepBuffers& buffers, SequenceState& state) {
  const StepRun& run = plan.runs[run_index];
  TESSERA_CHECK(run.state == &state && rows >= 0 && rows <= run.rows);
  const int64_t start = state.position;
  const int64_t end = start + rows;
  const int64_t row_bytes = window_row_bytes(config.head_dim);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const RowSet& made = *plan.layers[static_cast<size_t>(layer)].window;
    if (const int64_t from = made_from(plan, made, run_index, end); from > start) {
      state.ring_begin[static_cast<size_t>(layer)] = from;
    }
    for (int64_t p = std::max(start, end - config.window); p < end; ++p) {
      std::memcpy(
          state.rings.data() + layer * ring_layer_bytes(config) + p % config.window * row_bytes,
          buffers.window_row(config, layer, run.first_row + p - start),
          static_cast<size_t>(row_bytes));
    }
  }
  for (size_t source = 0; source < config.kv_sources.size(); ++source) {
    const int64_t ratio = config.ratio(config.kv_sources[source]);
    const int64_t open = end / ratio * ratio;  // first position of the group that stays open
    for (int64_t p = std::max(start, open); ratio > 1 && p < end; ++p) {
      std::memcpy(
          state.open_groups.data() +
              open_group_offset(config, static_cast<int64_t>(source), p % ratio),
          buffers.group_row(config, static_cast<int64_t>(source), run.first_row + p - start),
          static_cast<size_t>(2 * config.head_dim) * sizeof(float));
    }
    if (end / ratio > start / ratio) {
      state.index_slot = static_cast<int64_t>(source);
    }
    state.kv[source].truncate(end / ratio);
    state.index_keys[source].truncate(end / ratio);
  }
  for (int64_t i = 0; i < rows; ++i) {
    state.history.insert(state.history.begin(),
                         buffers.classes[static_cast<size_t>(run.first_row + i)]);
    state.history.pop_back();
  }
  state.position = end;
}

}  // namespace tessera::deepseek_v41
