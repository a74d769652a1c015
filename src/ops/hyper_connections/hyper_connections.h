// Manifold-constrained hyper-connections: `copies` residual streams, mixed by data-dependent
// weights. Source: deepseek_v41 specification 8 (reference: Block.hc_pre, hc_post and its Sinkhorn
// kernel). fp32 inside; the order of operations is the one written here.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

struct HyperConnectionSpec {
  int64_t copies = 4;
  int64_t sinkhorn_iterations = 20;
  float eps = 1e-6f;  // of the Sinkhorn steps and of `pre`
};

constexpr int64_t kMaxCopies = 8;

// m[r,o] = sum_i x[r,i] * fn[o,i]: products and sums in double, where they are exact to the last
// bit that matters, rounded to fp32 once (lanes and folding as in ops/rms_norm). A flipped rounding
// here reaches every copy of every later layer. x [rows, width] bf16, fn fp32 [outputs, width] of
// any alignment.
void project_mixes(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width,
                   const std::byte* fn, int64_t outputs, float* m);

// m [rows, (2 + copies) * copies]: projected stream, already times the row's reciprocal rms; scale
// [3], base [(2 + copies) * copies] fp32 of any alignment.
//   pre[j]  = sigmoid(m[j]*scale[0] + base[j]) + eps                 [rows, copies]
//   post[j] = 2 * sigmoid(m[copies+j]*scale[1] + base[copies+j])     [rows, copies]
//   comb    = Sinkhorn( softmax over k of (m[...]*scale[2] + base) ) [rows, copies (source), copies
//   (destination)]
void split_mixes(ExecContext& ctx, const HyperConnectionSpec& spec, const float* m,
                 const float* rstd, int64_t rows, const std::byte* scale, const std::byte* base,
                 float* pre, float* post, float* comb);

// y = bf16( sum_j pre[j] * x_j ), j ascending.    x [rows, copies, width], y [rows, width]
void collapse(ExecContext& ctx, int64_t copies, const bf16* x, const float* pre, int64_t rows,
              int64_t width, bf16* y);

// out_k = bf16( post[k]*y + sum_j comb[j][k]*x_j ), in place over x, j ascending.
void expand(ExecContext& ctx, int64_t copies, const bf16* y, const float* post, const float* comb,
            int64_t rows, int64_t width, bf16* x);

// y = bf16( mean of the copies ), summed ascending in fp32.    x [rows, copies, width]
void mean_of_copies(ExecContext& ctx, int64_t copies, const bf16* x, int64_t rows, int64_t width,
                    bf16* y);

}  // namespace tessera
