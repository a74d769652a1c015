// Selection of compressed entries: every query scores the keys it may see and keeps the best ones.
//   s_hj    = relu( bf16( q_h . k_j ) )                     dot in the order of ops/linear
//   score_j = bf16( sum_h bf16(s_hj * w_h) )                fp32 sum, heads ascending
// Scores of entries that are not visible are -inf. Ties go to the smaller index.
// Source: deepseek_v41 specification 7.5 and 7.6 (reference: Indexer.forward, get_candidates).
#pragma once

#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "ops/kv_cache/page_pool.h"
#include "tensor/exec_context.h"

namespace tessera {

enum class IndexScoreRounding {
  bf16,  // all three roundings of the reference
  fp32,  // none of them
};

// Consecutive query rows that score against one key table.
struct IndexRun {
  int64_t first_row = 0;
  int64_t rows = 0;
  const PageTable* keys = nullptr;   // format e2m1_e8m0_32, width head_dim
  const int32_t* visible = nullptr;  // [rows of all runs]: entries that a row may see
};

struct IndexScoreArgs {
  const bf16* q = nullptr;        // [rows, heads, head_dim], quantised
  const bf16* weights = nullptr;  // [rows, heads]
  int64_t heads = 0;
  int64_t head_dim = 0;
  IndexScoreRounding rounding = IndexScoreRounding::bf16;
  int64_t stride = 0;       // columns of `scores`: at least every row's visible count
  float* scores = nullptr;  // [rows, stride]
};
void index_scores(ExecContext& ctx, const IndexScoreArgs& args, std::span<const IndexRun> runs);

// Two-level selection. Blocks of `block` entries score as their best entry; the block of a row's
// newest visible entry always stays; the `keep` best blocks with a visible entry stay. candidates
// [rows, ceil(stride/block)] is 1 for kept blocks.
void candidate_blocks(ExecContext& ctx, const float* scores, const int32_t* visible, int64_t rows,
                      int64_t stride, int64_t block, int64_t keep, uint8_t* candidates);

// Scores outside the row's kept blocks become -inf.
void mask_by_candidates(ExecContext& ctx, const uint8_t* candidates, int64_t rows, int64_t stride,
                        int64_t block, float* scores);

// picks [rows, top_k]: the min(top_k, count) entries with the highest scores above -inf, ascending,
// then -1. Ties go to the smaller index.
void select_top_k(ExecContext& ctx, const float* scores, int64_t rows, int64_t stride,
                  int64_t top_k, int32_t* picks);

// The list of a row that sees no more than top_k entries, without scores: 0, 1, ... visible-1, then
// -1.
void select_all(ExecContext& ctx, const int32_t* visible, int64_t rows, int64_t top_k,
                int32_t* picks);

}  // namespace tessera
