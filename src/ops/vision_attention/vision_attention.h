// Bidirectional softmax attention over the patches of one image: every query sees every key.
//   s_j = (q . k_j) * scale             dot in the order of ops/linear, then one fp32 product
//   m   = max_j s_j
//   p_j = exp(s_j - m)                  exp_f32 of ops/vector_math.h
//   den = p_0 + p_1 + ...               fp32, keys ascending
//   o   = round( (sum_j p_j * v_j) / den )    fma from +0, keys ascending, p_j not rounded
// deepseek_v41 specification section 3. A query's result depends on that query and on all keys and
// values, never on the range of queries in a call, the thread count or the kernel level.
#pragma once

#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

template <typename T>  // bf16, or float for `--activations f32` (nothing is rounded then)
struct VisionAttentionArgs {
  // Row t of head h begins at q + t * stride + h * head_dim; k and v alike. Rotated already.
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  int64_t stride = 0;    // elements between tokens: 3 * heads * head_dim inside one qkv matrix
  T* o = nullptr;        // [tokens, heads, head_dim], rows `o_stride` apart; must not alias q, k, v
  int64_t o_stride = 0;  // elements between tokens
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;  // even
  float scale = 0;
  // Rows of o to compute. Keys are prepared anew by every call: ranges of some hundred queries
  // keep that cheap.
  int64_t first_query = 0;
  int64_t last_query = 0;
};

void vision_attention(ExecContext& ctx, const VisionAttentionArgs<bf16>& args);
void vision_attention(ExecContext& ctx, const VisionAttentionArgs<float>& args);

template <typename T>
using VisionAttentionFn = void (*)(ExecContext&, const VisionAttentionArgs<T>&);
// Reference first.
template <typename T>
std::span<const Variant<VisionAttentionFn<T>>> vision_attention_variants();

}  // namespace tessera
