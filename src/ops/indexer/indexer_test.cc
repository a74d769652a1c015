#include "ops/indexer/indexer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Packs random keys and gives their exact values back.
struct Keys {
  Keys(int64_t count, int64_t width) : pool({GroupFormat::e2m1_e8m0_32, width}, 64), table(&pool) {
    table.prepare_append(0, count);
    values.resize(static_cast<size_t>(count * width));
    const std::vector<bf16> raw = test::random_bf16(count * width, 11);
    for (int64_t j = 0; j < count; ++j) {
      pack_row(GroupFormat::e2m1_e8m0_32, raw.data() + j * width, width, table.codes(j),
               table.scales(j));
      unpack_row(GroupFormat::e2m1_e8m0_32, table.codes(j), table.scales(j), width,
                 values.data() + j * width);
    }
  }
  PagePool pool;
  PageTable table;
  std::vector<float> values;
};

TEST(Indexer, ScoresEqualTheDefinitionOnEveryLevelAndThreadCount) {
  constexpr int64_t kRows = 5, kHeads = 5, kWidth = 64, kKeys = 300;
  Keys keys(kKeys, kWidth);
  const std::vector<bf16> q = test::random_bf16(kRows * kHeads * kWidth, 1);
  const std::vector<bf16> w = test::random_bf16(kRows * kHeads, 2);  // negative weights too
  const std::vector<int32_t> visible = {0, 1, 17, 299, 300};
  for (const IndexScoreRounding rounding : {IndexScoreRounding::bf16, IndexScoreRounding::fp32}) {
    const auto round = [&](float x) {
      return rounding == IndexScoreRounding::bf16 ? round_bf16(x) : x;
    };
    for (const IsaLevel isa : supported_isas()) {
      for (const int threads : {1, 3}) {
        OpContext op(threads, isa);
        std::vector<float> scores(kRows * kKeys);
        const IndexRun run{0, kRows, &keys.table, visible.data()};
        index_scores(op.ctx, {q.data(), w.data(), kHeads, kWidth, rounding, kKeys, scores.data()},
                     {&run, 1});
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t j = 0; j < kKeys; ++j) {
            float expected = kMinusInfinity;
            if (j < visible[static_cast<size_t>(r)]) {
              float sum = 0;
              for (int64_t h = 0; h < kHeads; ++h) {
                float dot = 0;
                for (int64_t i = 0; i < kWidth; i += 2) {
                  const size_t at = static_cast<size_t>((r * kHeads + h) * kWidth + i);
                  const size_t key = static_cast<size_t>(j * kWidth + i);
                  dot = std::fma(to_float(q[at + 1]), keys.values[key + 1], dot);
                  dot = std::fma(to_float(q[at]), keys.values[key], dot);
                }
                const float weight = to_float(w[static_cast<size_t>(r * kHeads + h)]);
                sum += round(std::max(round(dot), 0.0f) * weight);
              }
              expected = round(sum);
            }
            ASSERT_EQ(scores[static_cast<size_t>(r * kKeys + j)], expected)
                << r << " " << j << isa_name(isa);
          }
        }
      }
    }
  }
}

// Specification 7.6: 9 visible of 12, block 4, keep 2: block maxima 5, 4, .5; the newest block is
// kept.
TEST(Indexer, CandidateBlocksKeepTheNewestAndTheBest) {
  OpContext op;
  std::vector<float> scores = {
      .1f, 5, .2f, .3f, 4, .1f, 0, .2f, .5f, kMinusInfinity, kMinusInfinity, kMinusInfinity};
  const int32_t visible = 9;
  std::vector<uint8_t> candidates(3);
  candidate_blocks(op.ctx, scores.data(), &visible, 1, 12, 4, 2, candidates.data());
  EXPECT_EQ(candidates, (std::vector<uint8_t>{1, 0, 1}));
  mask_by_candidates(op.ctx, candidates.data(), 1, 12, 4, scores.data());
  EXPECT_EQ(scores[4], kMinusInfinity);
  EXPECT_EQ(scores[1], 5.0f);
  const int32_t none = 0;
  std::fill(scores.begin(), scores.end(), kMinusInfinity);
  candidate_blocks(op.ctx, scores.data(), &none, 1, 12, 4, 2, candidates.data());
  EXPECT_EQ(candidates, (std::vector<uint8_t>{0, 0, 0}));
}

TEST(Indexer, TopKBreaksTiesByTheSmallerIndexAndSortsAscending) {
  OpContext op;
  const std::vector<float> scores = {1,
                                     -2,
                                     3,
                                     3,
                                     kMinusInfinity,
                                     3,
                                     0.0f,
                                     -0.0f,
                                     kMinusInfinity,
                                     kMinusInfinity,
                                     -5,
                                     kMinusInfinity,
                                     0,
                                     0,
                                     0,
                                     0};
  std::vector<int32_t> picks(2 * 4);
  select_top_k(op.ctx, scores.data(), 2, 8, 4, picks.data());
  EXPECT_EQ(picks, (std::vector<int32_t>{0, 2, 3, 5, 4, 5, 6, 7}));
  std::vector<int32_t> more(12);
  select_top_k(op.ctx, scores.data(), 1, 8, 12, more.data());
  EXPECT_EQ(more, (std::vector<int32_t>{0, 1, 2, 3, 5, 6, 7, -1, -1, -1, -1, -1}));
  std::vector<int32_t> two(2);
  select_top_k(op.ctx, scores.data(), 1, 8, 2, two.data());
  EXPECT_EQ(two, (std::vector<int32_t>{2, 3}));
}

TEST(Indexer, RowsThatSeeLittleTakeAll) {
  OpContext op;
  const std::vector<int32_t> visible = {0, 2};
  std::vector<int32_t> picks(2 * 3);
  select_all(op.ctx, visible.data(), 2, 3, picks.data());
  EXPECT_EQ(picks, (std::vector<int32_t>{-1, -1, -1, 0, 1, -1}));
}

}  // namespace
}  // namespace tessera
