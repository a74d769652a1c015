// Mixture of experts: routing and the experts themselves.
// Source: deepseek_v41 specification 9 (reference: Gate.forward, MoE.forward, Expert.forward).
#pragma once

#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "ops/linear/linear.h"
#include "tensor/exec_context.h"

namespace tessera {

struct RouterSpec {
  int64_t experts = 0;
  int64_t active = 0;        // picks per row
  float temperature = 1.0f;  // divides the logits
  float scale = 1.0f;        // multiplies the weights
  bool normalise = true;     // weights sum to `scale`
};

// scores[r,e] = sqrt(softplus(logits[r,e] / temperature)), softplus(z) = z if z > 20 else log1p(exp
// z). In place; evaluated in double and rounded once.
void router_scores(ExecContext& ctx, const RouterSpec& spec, float* logits, int64_t rows);

// picks [rows, active]: the experts with the largest scores + bias, ascending by id; ties to the
// smaller id. bias[r] points to fp32 [experts] of any alignment (rows may use different ones).
void router_picks(ExecContext& ctx, const RouterSpec& spec, const float* scores,
                  const std::byte* const* bias, int64_t rows, int32_t* picks);

// weights [rows, active]: the picked, unbiased scores, normalised (sum in ascending id, + 1e-20)
// and scaled.
void router_weights(ExecContext& ctx, const RouterSpec& spec, const float* scores,
                    const int32_t* picks, int64_t rows, float* weights);

struct ExpertWeights {
  Linear w1, w3, w2;  // gate, up, down
};

struct MoeArgs {
  const bf16* x = nullptr;         // [rows, width]
  const int32_t* picks = nullptr;  // [rows, active], ascending
  const float* weights = nullptr;  // [rows, active]
  int64_t rows = 0;
  int64_t active = 0;
  int64_t width = 0;
  int64_t ffn_dim = 0;
  float limit = 0;  // swiglu clamp
  std::span<const ExpertWeights> experts;
  const ExpertWeights* shared = nullptr;
  bf16* y = nullptr;  // [rows, width]
};

// y = bf16( sum over picks, ascending, of expert(x) in fp32, then + shared(x) ).
//   expert(x) = w2( bf16( weight * silu(min(w1 x, limit)) * clamp(w3 x) ) )
// Results per (row, pick) do not depend on the other rows.
void moe(ExecContext& ctx, const MoeArgs& args);

}  // namespace tessera
