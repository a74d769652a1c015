// Attention over few keys per query: the sliding window first, then a list of compressed entries,
// both ascending by position. All heads share one key/value vector.
//   s_j = (q_h . kv_j) * scale          dot in the order of ops/linear, then one fp32 product
//   m   = max(-1e30, max_j s_j)
//   p_j = exp(s_j - m);  den = sum_j p_j + exp(sink_h - m)        fp32, list order, the sink last
//   o_h = bf16( (sum_j bf16(p_j) * kv_j) / den )                  fma, list order
// The sink is neither scaled nor part of the maximum; a query without keys gives 0.
// Source: deepseek_v41 specification 7.3 and 7.7 (reference kernel: sparse_attn).
#pragma once

#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "ops/kv_cache/page_pool.h"
#include "tensor/exec_context.h"

namespace tessera {

// Consecutive query rows of one sequence. Window keys are addressed by position: committed ones lie
// in the ring at position % window, those of this step in the fresh rows.
struct AttentionRun {
  int64_t first_row = 0;  // of q and o
  int64_t rows = 0;
  const std::byte* ring = nullptr;  // [window] packed rows, e4m3_e8m0_32: codes then scales
  int64_t fresh_start = 0;  // position of the first fresh row; earlier positions are in the ring
  const std::byte* fresh = nullptr;  // packed rows of positions fresh_start, fresh_start + 1, ...
  const PageTable* compressed = nullptr;  // entries that the lists name, or nullptr
};

struct AttentionArgs {
  const bf16* q = nullptr;             // [rows, heads, head_dim]
  const int64_t* positions = nullptr;  // [rows]
  const std::byte* sinks = nullptr;    // fp32 [heads], any alignment
  const int32_t* lists =
      nullptr;  // [rows, list_stride] entries, ascending, -1 behind the last; or nullptr
  int64_t list_stride = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  float scale = 0;
  bf16* o = nullptr;  // [rows, heads, head_dim]
};

// Bytes of one packed window row.
int64_t window_row_bytes(int64_t head_dim);

void sparse_attention(ExecContext& ctx, const AttentionArgs& args,
                      std::span<const AttentionRun> runs);

}  // namespace tessera
