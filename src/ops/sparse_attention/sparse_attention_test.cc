#include "ops/sparse_attention/sparse_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

// A sequence with `position` committed rows and fresh ones behind, random content.
struct Scene {
  static constexpr int64_t kHeads = 6, kDim = 64, kWindow = 16, kCommitted = 21, kFresh = 40,
                           kEntries = 90;

  Scene() : pool({GroupFormat::e2m1_e4m3_16, kDim}, 4), table(&pool) {
    const int64_t total = kCommitted + kFresh;
    const std::vector<bf16> raw = test::random_bf16(total * kDim, 1);
    row_bytes = window_row_bytes(kDim);
    ring.resize(static_cast<size_t>(kWindow * row_bytes), std::byte{0x7f});
    fresh.resize(static_cast<size_t>(kFresh * row_bytes));
    window_values.resize(static_cast<size_t>(total * kDim));
    for (int64_t p = 0; p < total; ++p) {
      std::vector<std::byte> packed(static_cast<size_t>(row_bytes));
      pack_row(GroupFormat::e4m3_e8m0_32, raw.data() + p * kDim, kDim, packed.data(),
               packed.data() + kDim);
      unpack_row(GroupFormat::e4m3_e8m0_32, packed.data(), packed.data() + kDim, kDim,
                 window_values.data() + p * kDim);
      std::byte* target = p < kCommitted ? ring.data() + p % kWindow * row_bytes
                                         : fresh.data() + (p - kCommitted) * row_bytes;
      if (p >= kCommitted || p + kWindow >= kCommitted) {
        std::memcpy(target, packed.data(), packed.size());
      }
    }
    table.prepare_append(0, kEntries);
    const std::vector<bf16> entries = test::random_bf16(kEntries * kDim, 2);
    entry_values.resize(static_cast<size_t>(kEntries * kDim));
    for (int64_t j = 0; j < kEntries; ++j) {
      pack_row(GroupFormat::e2m1_e4m3_16, entries.data() + j * kDim, kDim, table.codes(j),
               table.scales(j));
      unpack_row(GroupFormat::e2m1_e4m3_16, table.codes(j), table.scales(j), kDim,
                 entry_values.data() + j * kDim);
    }
    q = test::random_bf16(kFresh * kHeads * kDim, 3);
    sinks = test::random_f32(kHeads, 4);
    lists.assign(kFresh * 20, -1);
    for (int64_t r = 0; r < kFresh; ++r) {
      positions.push_back(kCommitted + r);
      for (int64_t i = 0; i < r % 21; ++i) {
        lists[static_cast<size_t>(r * 20 + i)] = static_cast<int32_t>(i * 4 + r % 3);
      }
    }
  }

  std::vector<bf16> run(OpContext& op, int64_t first, int64_t rows) const {
    std::vector<bf16> o(static_cast<size_t>(rows * kHeads * kDim));
    AttentionRun r{0, rows, ring.data(), kCommitted, fresh.data(), &table};
    const AttentionArgs args{q.data() + first * kHeads * kDim,
                             positions.data() + first,
                             reinterpret_cast<const std::byte*>(sinks.data()),
                             lists.data() + first * 20,
                             20,
                             kHeads,
                             kDim,
                             kWindow,
                             0.125f,
                             o.data()};
    sparse_attention(op.ctx, args, {&r, 1});
    return o;
  }

  // The definition, one output at a time, in double where order does not matter.
  std::vector<double> oracle(int64_t row) const {
    std::vector<double> out(kHeads * kDim);
    std::vector<const float*> keys;
    const int64_t position = positions[static_cast<size_t>(row)];
    for (int64_t p = std::max<int64_t>(0, position - kWindow + 1); p <= position; ++p) {
      keys.push_back(window_values.data() + p * kDim);
    }
    for (int64_t i = 0; i < 20 && lists[static_cast<size_t>(row * 20 + i)] >= 0; ++i) {
      keys.push_back(entry_values.data() + lists[static_cast<size_t>(row * 20 + i)] * kDim);
    }
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> s;
      double largest = -1e30;
      for (const float* key : keys) {
        double dot = 0;
        for (int64_t i = 0; i < kDim; ++i) {
          dot +=
              static_cast<double>(to_float(q[static_cast<size_t>((row * kHeads + h) * kDim + i)])) *
              key[i];
        }
        s.push_back(dot * 0.125);
        largest = std::max(largest, s.back());
      }
      double den = std::exp(static_cast<double>(sinks[static_cast<size_t>(h)]) - largest);
      for (double& x : s) {
        x = std::exp(x - largest);
        den += x;
      }
      for (int64_t i = 0; i < kDim; ++i) {
        double sum = 0;
        for (size_t j = 0; j < keys.size(); ++j) {
          sum += static_cast<double>(round_bf16(static_cast<float>(s[j]))) *
                 static_cast<double>(keys[j][i]);
        }
        out[static_cast<size_t>(h * kDim + i)] = sum / den;
      }
    }
    return out;
  }

  PagePool pool;
  PageTable table;
  int64_t row_bytes = 0;
  std::vector<std::byte> ring, fresh;
  std::vector<float> window_values, entry_values, sinks;
  std::vector<bf16> q;
  std::vector<int64_t> positions;
  std::vector<int32_t> lists;
};

TEST(SparseAttention, MatchesADoubleOracle) {
  const Scene scene;
  OpContext op(1, IsaLevel::reference);
  const std::vector<bf16> o = scene.run(op, 0, Scene::kFresh);
  for (int64_t row = 0; row < Scene::kFresh; ++row) {
    const std::vector<double> expected = scene.oracle(row);
    for (size_t i = 0; i < expected.size(); ++i) {
      const float ours = to_float(o[static_cast<size_t>(row) * expected.size() + i]);
      // One bf16 step of the result, and one flipped bf16 rounding of a probability (<= 2^-8 of
      // it).
      EXPECT_NEAR(ours, expected[i], std::fabs(expected[i]) * 0x1p-8 + 0x1p-9) << row << " " << i;
    }
  }
}

TEST(SparseAttention, LevelsThreadsAndCutsChangeNoBit) {
  const Scene scene;
  OpContext reference(1, IsaLevel::reference);
  const std::vector<bf16> expected = scene.run(reference, 0, Scene::kFresh);
  for (const IsaLevel isa : supported_isas()) {
    for (const int threads : {1, 3}) {
      for (const int64_t cut : {1, 7, 40}) {
        OpContext op(threads, isa);
        for (int64_t first = 0; first < Scene::kFresh; first += cut) {
          const int64_t rows = std::min(cut, Scene::kFresh - first);
          const std::vector<bf16> part = scene.run(op, first, rows);
          EXPECT_EQ(std::memcmp(part.data(), expected.data() + first * Scene::kHeads * Scene::kDim,
                                part.size() * 2),
                    0)
              << isa_name(isa) << " threads " << threads << " rows from " << first;
        }
      }
    }
  }
}

// Specification 7.7: s = (1, 2), sink 3, unit value vectors -> (0.0900306, 0.2447285).
TEST(SparseAttention, SinkTakesPartInTheDenominatorOnly) {
  OpContext op;
  constexpr int64_t kDim = 32;
  const int64_t row_bytes = window_row_bytes(kDim);
  std::vector<std::byte> ring(static_cast<size_t>(2 * row_bytes)),
      fresh(static_cast<size_t>(2 * row_bytes));
  for (int64_t p = 0; p < 2; ++p) {
    std::vector<bf16> kv(kDim, bf16{0});
    kv[static_cast<size_t>(p)] = to_bf16(1.0f);
    pack_row(GroupFormat::e4m3_e8m0_32, kv.data(), kDim, fresh.data() + p * row_bytes,
             fresh.data() + p * row_bytes + kDim);
  }
  std::vector<bf16> q(kDim, bf16{0}), o(kDim);
  q[0] = to_bf16(1.0f);
  q[1] = to_bf16(2.0f);
  const float sink = 3.0f;
  const int64_t position = 1;
  const AttentionRun run{0, 1, ring.data(), 0, fresh.data(), nullptr};
  sparse_attention(op.ctx,
                   {q.data(), &position, reinterpret_cast<const std::byte*>(&sink), nullptr, 0, 1,
                    kDim, 2, 1.0f, o.data()},
                   {&run, 1});
  EXPECT_NEAR(to_float(o[0]), 0.0900306f, 0.0900306f / 256);
  EXPECT_NEAR(to_float(o[1]), 0.2447285f, 0.2447285f / 256);
}

}  // namespace
}  // namespace tessera
