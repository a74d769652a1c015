// Element-wise functions between matrix products. fp32 inside; where results are rounded is part of
// the name. exp and erf are ours (ops/vector_math.h,
// ops/scalar_math.h).
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// Tower MLP: x [rows, 2*width], gate first: y = bf16( bf16(silu(gate)) * up ), two roundings.
void silu_mul(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width, bf16* y);
void silu_mul(ExecContext& ctx, const float* x, int64_t rows, int64_t width, float* y);

// Expert: y = bf16( weight * (silu(min(gate, limit)) * clamp(up, -limit, limit)) ), one rounding.
// gate, up, y [rows, width]; weight [rows] or nullptr for 1; limit <= 0: no clamp.
void swiglu(ExecContext& ctx, const bf16* gate, const bf16* up, const float* weight, int64_t rows,
            int64_t width, float limit, bf16* y);

// y = 0.5 * x * (1 + erf(x / sqrt 2)), count elements, y may be x.
void gelu(ExecContext& ctx, const bf16* x, int64_t count, bf16* y);
void gelu(ExecContext& ctx, const float* x, int64_t count, float* y);

// x += y, rounded to the type; count elements.
void add(ExecContext& ctx, bf16* x, const bf16* y, int64_t count);
void add(ExecContext& ctx, float* x, const float* y, int64_t count);

}  // namespace tessera
