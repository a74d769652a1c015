// The implementations of every step of linear, by kernel level, reference first.
#pragma once

#include <span>

#include "ops/linear/formats/format.h"
#include "ops/linear/linear.h"
#include "ops/linear/panel.h"
#include "tensor/exec_context.h"

namespace tessera::kernels {

// Pair panels exist from avx512 on; the reference of that kind is for tests.
std::span<const Variant<MultiplyFn>> multiply_variants(PanelKind kind);
std::span<const Variant<FoldFn>> fold_variants();
std::span<const Variant<StoreFn>> store_bf16_variants();
std::span<const Variant<StoreFn>> store_f32_variants();

// The fused kernel of a weight for one row at a level, nullptr where there is none.
FusedFn fused_kernel(const Weight& weight, IsaLevel isa);

// linear_many with the choice of the multiply instruction left to the caller: `may_use_dot` allows
// vdpbf16ps where the level has it. The bits are the same.
void run_linear(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot);

}  // namespace tessera::kernels
