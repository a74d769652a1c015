#include "ops/engram/engram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

// The released addressing of memory layer 1 or 14.
EngramAddressing released(size_t index) {
  EngramAddressing a{
      .max_ngram = 4, .heads = 8, .pad_class = 2, .multipliers = {}, .primes = {}, .offsets = {}};
  const int64_t layer = index == 0 ? 1 : 14;
  const std::vector<int64_t> multipliers = engram_multipliers(layer, 4, 99092);
  std::copy(multipliers.begin(), multipliers.end(), a.multipliers.begin());
  a.primes = engram_primes(2, 4, 8, 16000000)[index];
  int64_t sum = 0;
  for (const int64_t prime : a.primes) {
    a.offsets.push_back(sum);
    sum += prime;
  }
  return a;
}

TEST(Engram, MultipliersAreNumpysStream) {
  EXPECT_EQ(engram_multipliers(1, 4, 99092),
            (std::vector<int64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(engram_multipliers(14, 4, 99092),
            (std::vector<int64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
}

TEST(Engram, PrimeBucketsSumToTheTableSizes) {
  const std::vector<std::vector<int64_t>> primes = engram_primes(2, 4, 8, 16000000);
  EXPECT_EQ(primes[0].front(), 16000057);
  EXPECT_EQ(primes[0].back(), 16000463);
  EXPECT_EQ(primes[1].front(), 16000477);
  EXPECT_EQ(primes[1].back(), 16000889);
  EXPECT_EQ(std::accumulate(primes[0].begin(), primes[0].end(), int64_t{0}), 384006168);
  EXPECT_EQ(std::accumulate(primes[1].begin(), primes[1].end(), int64_t{0}), 384016682);
}

// Specification 15.2: compressed history [5, 7, DEAD, 11, 13].
TEST(Engram, WorkedHashes) {
  const std::vector<int32_t> classes = {5, 7, kDeadClass, 11, 13};
  const int64_t first_columns[2][5][4] = {{{5412672, 18319159, 35492627, 60880252},
                                           {1465117, 16756641, 44328833, 56905956},
                                           {4299726, 29253038, 43157972, 58397134},
                                           {5935489, 27383162, 35151319, 49297276},
                                           {4449004, 17571959, 46401655, 53039289}},
                                          {{6939818, 27264717, 45254833, 51915000},
                                           {2873305, 19453170, 39349392, 52613772},
                                           {6788701, 28249242, 44401659, 55169969},
                                           {12163276, 17383007, 46048242, 59825435},
                                           {15143247, 22529278, 37793046, 53302599}}};
  const int64_t last_column[2][5] = {{372009279, 373855271, 370096053, 376233586, 369991666},
                                     {382274687, 372035727, 381853422, 383349447, 382935936}};
  for (size_t layer = 0; layer < 2; ++layer) {
    const EngramAddressing addressing = released(layer);
    for (size_t position = 0; position < 5; ++position) {
      int32_t history[4];
      for (size_t back = 0; back < 4; ++back) {
        history[back] = position >= back ? classes[position - back] : kDeadClass;
      }
      std::vector<int64_t> ids(24);
      engram_rows(addressing, history, ids.data());
      for (size_t c = 0; c < 4; ++c) {
        EXPECT_EQ(ids[c], first_columns[layer][position][c])
            << layer << " " << position << " " << c;
      }
      EXPECT_EQ(ids[23], last_column[layer][position]) << layer << " " << position;
    }
  }
}

std::vector<float> looked_up(const EngramTable& table, int64_t id) {
  test::OpContext op;
  std::vector<bf16> y(static_cast<size_t>(table.width));
  engram_lookup(op.ctx, table, &id, 1, 1, y.data());
  std::vector<float> values;
  for (const bf16 value : y) {
    values.push_back(to_float(value));
  }
  return values;
}

// checkpoint specification 11: an Engram row.
TEST(Engram, LookupScalesEvery32Columns) {
  std::vector<std::byte> codes(2 * 64, std::byte{0}), scales(2 * 2, std::byte{0x7f});
  const uint8_t payload[4] = {0x38, 0x40, 0xb8, 0x7e};
  for (size_t i = 0; i < 4; ++i) {
    codes[64 + i] = static_cast<std::byte>(payload[i]);
    codes[64 + 32 + i] = static_cast<std::byte>(payload[i]);
  }
  scales[2] = std::byte{0x7a};
  scales[3] = std::byte{0x7d};
  const std::vector<float> y =
      looked_up({.codes = codes.data(), .scales = scales.data(), .rows = 2, .width = 64}, 1);
  const float first[4] = {0.03125f, 0.0625f, -0.03125f, 14}, second[4] = {0.25f, 0.5f, -0.25f, 112};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], first[i]);
    EXPECT_EQ(y[32 + i], second[i]);
  }
}

// The same rows as MXFP4, section 11's codes, and as bf16.
TEST(Engram, LookupOfPackedAndPlainTables) {
  const uint8_t payload[8] = {0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f};
  std::vector<std::byte> codes(3 * 32, std::byte{0x22}), scales(3 * 2, std::byte{0x7f});
  for (size_t i = 0; i < 8; ++i) {
    codes[32 + i] = static_cast<std::byte>(payload[i]);
    codes[32 + 16 + i] = static_cast<std::byte>(payload[i]);
  }
  scales[2] = std::byte{0x7a};
  const std::vector<float> y = looked_up({.format = EngramTable::Format::e2m1,
                                          .codes = codes.data(),
                                          .scales = scales.data(),
                                          .rows = 3,
                                          .width = 64},
                                         1);
  const std::vector<float> values = {0.5f,  1,  1.5f,  2,  3,  4,  6,  0,
                                     -0.5f, -1, -1.5f, -2, -3, -4, -6, 0};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], values[i] * 0x1p-5f) << i;
    EXPECT_EQ(y[32 + i], values[i]) << i;
  }
  EXPECT_FALSE(std::signbit(y[7]));
  const std::vector<bf16> plain = {to_bf16(1), to_bf16(-3.25f)};
  std::vector<bf16> rows(2 * 32);
  rows[32] = plain[0];
  rows[63] = plain[1];
  const std::vector<float> second = looked_up({.format = EngramTable::Format::bf16,
                                               .codes = reinterpret_cast<std::byte*>(rows.data()),
                                               .rows = 2,
                                               .width = 32},
                                              1);
  EXPECT_EQ(second.front(), 1.0f);
  EXPECT_EQ(second.back(), -3.25f);
}

// Gate samples of specification 6.5: width 1 makes d = sign, so use rows whose product gives the
// dot.
TEST(Engram, GateSamplesAndDeadRows) {
  test::OpContext op;
  constexpr int64_t kWidth = 64;
  const std::vector<std::pair<float, float>> samples = {
      {4, 0.88079708f}, {0.25f, 0.62245933f}, {-2, 0.19557032f}};
  for (const auto& [dot, gate] : samples) {
    // h and key constant 1: both rstd are 1, d = sum(w) / sqrt(width) = 64 w / 8.
    std::vector<bf16> stream(kWidth, to_bf16(1.0f)), kv(2 * kWidth, to_bf16(1.0f));
    for (int64_t i = 0; i < kWidth; ++i) {
      kv[static_cast<size_t>(kWidth + i)] = to_bf16(256.0f);  // the value
    }
    const std::vector<bf16> q(kWidth, to_bf16(dot / 8)), k(kWidth, to_bf16(1.0f));
    const uint8_t alive = 0, dead = 1;
    EngramGateArgs args{stream.data(),
                        kv.data(),
                        reinterpret_cast<const std::byte*>(q.data()),
                        reinterpret_cast<const std::byte*>(k.data()),
                        &dead,
                        1,
                        1,
                        kWidth,
                        1e-20f};
    engram_gate(op.ctx, args);
    EXPECT_EQ(to_float(stream[0]), 1.0f);
    args.is_dead = &alive;
    engram_gate(op.ctx, args);
    EXPECT_EQ(stream[0], to_bf16(1.0f + 256.0f * gate)) << dot;
  }
}

}  // namespace
}  // namespace tessera
