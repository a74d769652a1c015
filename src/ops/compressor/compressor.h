// Gated pooling of groups of rows into one latent:
//   latent[g,i] = bf16( sum_r kv[r,i] * softmax_r(score[r,i]) ),  r over the rows of group g
// fp32: maximum, exp and sum in row order, one division per weight, products added in row order.
// Source: deepseek_v41 specification 7.4 (reference: Compressor.forward).
#pragma once

#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// kv, score: pointers to the fp32 rows [width] of all groups, `ratio` per group (2 <= ratio <= 8);
// latent [groups, width].
void pool_groups(ExecContext& ctx, std::span<const float* const> kv,
                 std::span<const float* const> score, int64_t ratio, int64_t width, bf16* latent);

}  // namespace tessera
