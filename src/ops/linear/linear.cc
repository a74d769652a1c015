#include "ops/linear/linear.h"

#include "ops/linear/plan.h"

namespace tessera {
namespace kernels {

void run_linear(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot) {
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
