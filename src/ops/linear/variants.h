// The implementations of every step of linear, by kernel level, reference first.
#pragma once

#include <span>

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/unpack.h"
#include "ops/linear/linear.h"
#include "ops/linear/panel.h"
#include "tensor/exec_context.h"

namespace tessera::kernels {

enum class PanelKind { f32, pairs };

// Pair panels exist from avx512 on; the reference of that kind is for tests.
std::span<const Variant<UnpackFn>> unpack_bf16_variants(PanelKind kind);
std::span<const Variant<UnpackFn>> unpack_f32_variants();
std::span<const Variant<UnpackFn>> unpack_fp8_block_variants(PanelKind kind);
std::span<const Variant<UnpackFn>> unpack_mxfp4_variants(PanelKind kind);
std::span<const Variant<MultiplyFn>> multiply_variants(PanelKind kind);
std::span<const Variant<StoreFn>> store_bf16_variants();
std::span<const Variant<StoreFn>> store_f32_variants();

// Where a weight's panel begins and how to unpack it; count, first and panel are left to the
// caller.
UnpackArgs panel_source(const Weight& weight, int64_t panel);
std::span<const Variant<UnpackFn>> unpack_variants(const Weight& weight, PanelKind kind);

// The fused kernel of a weight for one row at a level, nullptr where there is none.
FusedFn fused_kernel(const Weight& weight, IsaLevel isa);

// linear_many with the choice of the multiply instruction left to the caller: `may_use_dot` allows
// vdpbf16ps where the level has it. The bits are the same.
void run_linear(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot);

}  // namespace tessera::kernels
