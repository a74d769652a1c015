#include "ops/indexer/indexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/checked_math.h"
#include "ops/indexer/kernels.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const IndexerKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kIndexerReference},
     {IsaLevel::avx2, &kIndexerAvx2},
     {IsaLevel::avx512, &kIndexerAvx512}}};

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kKeyTile =
    256;  // keys unpacked at once: 256 x 128 fp32 stay in the second-level cache
constexpr int64_t kKeyLanes = 16;

// Orders like the scores, larger first; equal scores order by the smaller index.
uint64_t rank_key(float score, int64_t index) {
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<uint64_t>(~ascending) << 32) | static_cast<uint64_t>(index);
}

int64_t rank_index(uint64_t key) { return static_cast<int64_t>(key & 0xffffffffU); }

// Keys [first, first + count) of a table, unpacked and transposed: out [count/16][head_dim][16],
// zeros behind the last key.
void unpack_keys(const PageTable& keys, int64_t first, int64_t count, int64_t head_dim, float* row,
                 float* out) noexcept {
  const GroupFormat format = keys.layout().format;
  std::fill(out, out + round_up(count, kKeyLanes) * head_dim, 0.0f);
  for (int64_t j = 0; j < count; ++j) {
    unpack_row(format, keys.codes(first + j), keys.scales(first + j), head_dim, row);
    float* lane = out + (j / kKeyLanes) * head_dim * kKeyLanes + j % kKeyLanes;
    for (int64_t i = 0; i < head_dim; ++i) {
      lane[i * kKeyLanes] = row[i];
    }
  }
}

}  // namespace

void index_scores(ExecContext& ctx, const IndexScoreArgs& args, std::span<const IndexRun> runs) {
  const IndexerKernels* kernels = pick<const IndexerKernels*>(ctx, kVariants);
  const Arena::Scope scope(ctx.scratch);
  const int64_t tiles_per_run = ceil_div(args.stride, kKeyTile);
  const int64_t scratch_floats = (kKeyTile + 1) * args.head_dim;
  float* scratch = ctx.scratch.allocate<float>(scratch_floats * ctx.threads.threads());
  const bool is_rounded = args.rounding == IndexScoreRounding::bf16;
  ctx.threads.parallel_for(
      static_cast<int64_t>(runs.size()) * tiles_per_run, [&](int64_t item, int thread) {
        const IndexRun& run = runs[static_cast<size_t>(item / tiles_per_run)];
        const int64_t first = item % tiles_per_run * kKeyTile;
        const int64_t columns = std::min(kKeyTile, args.stride - first);
        int64_t most_visible = 0;
        for (int64_t r = 0; r < run.rows; ++r) {
          most_visible = std::max<int64_t>(most_visible, run.visible[run.first_row + r]);
        }
        const int64_t keys = std::clamp<int64_t>(most_visible - first, 0, columns);
        float* row = scratch + thread * scratch_floats;
        float* tile = row + args.head_dim;
        unpack_keys(*run.keys, first, keys, args.head_dim, row, tile);
        for (int64_t r = run.first_row; r < run.first_row + run.rows; ++r) {
          float* out = args.scores + r * args.stride + first;
          const int64_t seen = std::clamp<int64_t>(run.visible[r] - first, 0, columns);
          for (int64_t j = 0; j < seen; j += kKeyLanes) {
            float scores[kKeyLanes];
            kernels->score16(&args.q[r * args.heads * args.head_dim].bits,
                             &args.weights[r * args.heads].bits, args.heads, args.head_dim,
                             tile + j * args.head_dim, is_rounded, scores);
            std::copy(scores, scores + std::min(kKeyLanes, seen - j), out + j);
          }
          std::fill(out + seen, out + columns, kMinusInfinity);
        }
      });
}

void candidate_blocks(ExecContext& ctx, const float* scores, const int32_t* visible, int64_t rows,
                      int64_t stride, int64_t block, int64_t keep, uint8_t* candidates) {
  const int64_t blocks = ceil_div(stride, block);
  const Arena::Scope scope(ctx.scratch);
  uint64_t* scratch = ctx.scratch.allocate<uint64_t>(blocks * ctx.threads.threads());
  ctx.threads.parallel_for(rows, [&](int64_t row, int thread) {
    uint64_t* keys = scratch + thread * blocks;
    uint8_t* out = candidates + row * blocks;
    std::fill(out, out + blocks, uint8_t{0});
    int64_t count = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      float best = kMinusInfinity;
      for (int64_t j = b * block; j < std::min(stride, (b + 1) * block); ++j) {
        best = std::max(best, scores[row * stride + j]);
      }
      if (visible[row] > 0 && b == (visible[row] - 1) / block) {
        best = std::numeric_limits<float>::infinity();
      }
      if (best > kMinusInfinity) {
        keys[count++] = rank_key(best, b);
      }
    }
    const int64_t kept = std::min(keep, count);
    std::nth_element(keys, keys + kept, keys + count);
    for (int64_t i = 0; i < kept; ++i) {
      out[rank_index(keys[i])] = 1;
    }
  });
}

void mask_by_candidates(ExecContext& ctx, const uint8_t* candidates, int64_t rows, int64_t stride,
                        int64_t block, float* scores) {
  const int64_t blocks = ceil_div(stride, block);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t j = 0; j < stride; ++j) {
      if (candidates[row * blocks + j / block] == 0) {
        scores[row * stride + j] = kMinusInfinity;
      }
    }
  });
}

void select_top_k(ExecContext& ctx, const float* scores, int64_t rows, int64_t stride,
                  int64_t top_k, int32_t* picks) {
  const Arena::Scope scope(ctx.scratch);
  uint64_t* scratch = ctx.scratch.allocate<uint64_t>(stride * ctx.threads.threads());
  ctx.threads.parallel_for(rows, [&](int64_t row, int thread) {
    uint64_t* keys = scratch + thread * stride;
    int32_t* out = picks + row * top_k;
    int64_t count = 0;
    for (int64_t j = 0; j < stride; ++j) {
      if (scores[row * stride + j] > kMinusInfinity) {
        keys[count++] = rank_key(scores[row * stride + j], j);
      }
    }
    const int64_t kept = std::min(top_k, count);
    std::nth_element(keys, keys + kept, keys + count);
    for (int64_t i = 0; i < kept; ++i) {
      out[i] = static_cast<int32_t>(rank_index(keys[i]));
    }
    std::sort(out, out + kept);
    std::fill(out + kept, out + top_k, -1);
  });
}

void select_all(ExecContext& ctx, const int32_t* visible, int64_t rows, int64_t top_k,
                int32_t* picks) {
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t i = 0; i < top_k; ++i) {
      picks[row * top_k + i] = i < visible[row] ? static_cast<int32_t>(i) : -1;
    }
  });
}

}  // namespace tessera
