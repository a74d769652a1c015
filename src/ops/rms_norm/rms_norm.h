// y[t,i] = round( weight[i] * (x[t,i] * rstd_t) ),  rstd_t = 1 / sqrt(mean_i(x[t,i]^2) + eps)
// (Zhang and Sennrich 2019, with eps). Statistic and x * rstd are double, rounded to fp32 once; the
// product with the weight is fp32, then one rounding to the output type.
//
// Order of the sum: lane l of 16 takes elements l, l+16, ...; lanes fold as (l, l+8), (l, l+4), (l,
// l+2), (l, l+1). Squares are exact in double.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// x, y [rows, width], y may be x; weight bf16 [width] of any alignment (mapped).
void rms_norm(ExecContext& ctx, const bf16* x, const std::byte* weight, int64_t rows, int64_t width,
              float eps, bf16* y);
void rms_norm(ExecContext& ctx, const float* x, const std::byte* weight, int64_t rows,
              int64_t width, float eps, float* y);

// rstd [rows] alone: the statistic of hyper-connections and Engram.
void reciprocal_rms(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width, float eps,
                    float* rstd);

}  // namespace tessera
