#include "ops/linear/linear.h"

#include <cstring>

#include "base/residency.h"
#include "ops/linear/plan.h"

namespace tessera {
namespace kernels {
namespace {

// Of the room for weights, what the calls of a batch take: what the system maps beside them is seen
// between batches only.
constexpr int64_t kBatchShare = 16;

// The calls as one loop over the threads.
void run_batch(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot) {
  const Arena::Scope scope(ctx.scratch);
  const std::span<const Plan> plans = make_plans(ctx, calls, may_use_dot);
  if (plans.empty()) {
    return;
  }
  int64_t scratch_bytes = 0;
  for (const Plan& plan : plans) {
    scratch_bytes = std::max(scratch_bytes, round_up(plan.scratch_bytes(), kAlignment));
  }
  std::byte* scratch =
      ctx.scratch.allocate<std::byte>(scratch_bytes * int64_t{ctx.threads.threads()});
  const int64_t items = plans.back().first_item + plans.back().items();
  ctx.threads.parallel_for(items, [&](int64_t item, int thread) {
    const auto after =
        std::upper_bound(plans.begin(), plans.end(), item,
                         [](int64_t value, const Plan& plan) { return value < plan.first_item; });
    const Plan& plan = *(after - 1);
    run_item(plan, item - plan.first_item, scratch + thread * scratch_bytes);
  });
}

int64_t resident_bytes(const LinearCall& call) {
  const auto [codes, scales] = weight_bytes(call.layer->weight);
  return call.rows > 0 ? Residency::most_bytes(codes) + Residency::most_bytes(scales) : 0;
}

void run_resident(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot) {
  const Arena::Scope scope(ctx.scratch);
  ByteSpan* ranges = ctx.scratch.allocate<ByteSpan>(2 * std::ssize(calls));
  size_t count = 0;
  for (const LinearCall& call : calls) {
    if (call.rows > 0) {
      for (const ByteSpan bytes : weight_bytes(call.layer->weight)) {
        ranges[count++] = bytes;
      }
    }
  }
  const Residency::Use use(ctx.residency, {ranges, count});
  run_batch(ctx, calls, may_use_dot);
}

// One call whose weight does not fit into the budget: as many of its outputs at a time as do.
void run_in_parts(ExecContext& ctx, const LinearCall& call, int64_t budget, bool may_use_dot) {
  const Weight& weight = call.layer->weight;
  const int64_t tile = rows_per_scale(weight);
  const int64_t parts = ceil_div(resident_bytes(call), budget);
  const int64_t most = round_up(ceil_div(weight.outputs, parts), tile);
  const int64_t value_bytes = call.out == DType::f32 ? 4 : 2;
  const Arena::Scope scope(ctx.scratch);
  std::byte* y = ctx.scratch.allocate<std::byte>(call.rows * most * value_bytes);
  for (int64_t first = 0; first < weight.outputs; first += most) {
    const int64_t count = std::min(most, weight.outputs - first);
    Linear part = *call.layer;
    part.weight = rows_of(weight, first, count);
    part.bias = part.bias != nullptr ? part.bias + first * 2 : nullptr;
    LinearCall part_call = call;
    part_call.layer = &part;
    part_call.y = y;
    run_resident(ctx, {&part_call, 1}, may_use_dot);
    for (int64_t row = 0; row < call.rows; ++row) {
      std::memcpy(static_cast<std::byte*>(call.y) + (row * weight.outputs + first) * value_bytes,
                  y + row * count * value_bytes, static_cast<size_t>(count * value_bytes));
    }
  }
}

}  // namespace

void run_linear(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot) {
  for (size_t i = 0; ctx.observer != nullptr && i < calls.size(); ++i) {
    ctx.observer->see(calls[i]);
  }
  if (ctx.residency == nullptr) {
    run_batch(ctx, calls, may_use_dot);
    return;
  }
  // Calls do not depend on each other: some at a time, as room is made for them.
  while (!calls.empty()) {
    const int64_t budget = ctx.residency->budget_bytes();
    int64_t bytes = resident_bytes(calls.front());
    size_t count = 1;
    if (bytes > budget) {
      run_in_parts(ctx, calls.front(), budget, may_use_dot);
    } else {
      for (; count < calls.size(); ++count) {
        bytes += resident_bytes(calls[count]);
        if (bytes > budget / kBatchShare) {
          break;
        }
      }
      run_resident(ctx, calls.first(count), may_use_dot);
    }
    calls = calls.subspan(count);
  }
}

}  // namespace kernels

void linear_many(ExecContext& ctx, std::span<const LinearCall> calls) {
  const bool may_use_dot = ctx.isa >= IsaLevel::avx512 && kernels::is_dot_faster();
  kernels::run_linear(ctx, calls, may_use_dot);
}

void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, bf16* y) {
  const LinearCall call{x, rows, &layer, y, DType::bf16};
  linear_many(ctx, {&call, 1});
}

void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, float* y) {
  const LinearCall call{x, rows, &layer, y, DType::f32};
  linear_many(ctx, {&call, 1});
}

void linear(ExecContext& ctx, const float* x, int64_t rows, const Linear& layer, float* y) {
  const LinearCall call{nullptr, rows, &layer, y, DType::f32, x};
  linear_many(ctx, {&call, 1});
}

}  // namespace tessera
