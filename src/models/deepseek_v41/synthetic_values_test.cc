// The rules of synthetic_values.h against values of scripts/oracle/synthetic_weights.py, which is
// written from the same text.
#include "models/deepseek_v41/synthetic_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "tests/support/op_test.h"

namespace tessera::deepseek_v41 {
namespace {

// Of a scale, the weight that it belongs to.
struct Weight {
  DType dtype;
  Shape shape;
};

struct Row {
  const char* name;
  DType dtype;
  Shape shape;
  std::optional<Weight> weight;
  uint64_t first;  // eight bytes, the first one highest
  uint64_t check;  // fnv of all bytes
  uint64_t seed = 1;

  TensorSpec tensor() const { return {name, dtype, shape}; }
  SyntheticTensor values() const {
    const TensorSpec self = tensor();
    return SyntheticTensor(
        self, weight.has_value() ? TensorSpec{"", weight->dtype, weight->shape} : self, seed);
  }
};

const Weight kFp8 = {DType::f8_e4m3, {40, 96}};
const Weight kMxfp4 = {DType::i8, {35, 32}};
const Weight kTable = {DType::f8_e4m3, {31, 64}};
const Weight kNvfp4 = {DType::u8, {5, 48}};

const Row kRows[] = {
    {"layers.0.attn.wq_a.weight",
     DType::f8_e4m3,
     {40, 96},
     {},
     0x281c71d6ae141c73,
     0x483e0dc5a132688a},
    {"layers.0.attn.wq_a.weight",
     DType::f8_e4m3,
     {40, 96},
     {},
     0xab61f5933146651c,
     0x236f908c7111cf7d,
     7},
    {"layers.0.attn.wq_a.scale",
     DType::f8_e8m0,
     {2, 3},
     kFp8,
     0x7474747574750000,
     0xa4b716ac971be885},
    {"layers.3.ffn.experts.7.w2.weight",
     DType::i8,
     {35, 32},
     {},
     0x5ec2434ad4208e28,
     0xbf751f7e3259c2f3},
    {"layers.3.ffn.experts.7.w2.scale",
     DType::f8_e8m0,
     {35, 2},
     kMxfp4,
     0x7a7a7a797a7a7a79,
     0x2385540154843534},
    {"layers.1.engram.embed.weight",
     DType::f8_e4m3,
     {31, 64},
     {},
     0xc3e484ab620a63e0,
     0xcfadbc1705789ec9},
    {"layers.1.engram.embed.scale",
     DType::f8_e8m0,
     {31, 2},
     kTable,
     0x7878777878777877,
     0xe44e0bca48cb3860},
    {"layers.1.engram.embed.weight",
     DType::bf16,
     {31, 64},
     {},
     0x413f6a3f163f133f,
     0x0c91da6a523cb88e},
    {"layers.1.engram.q_weight", DType::bf16, {4, 33}, {}, 0x643f933f733f793f, 0x664a9d7908dc1505},
    {"layers.1.hc_attn_fn", DType::f32, {24, 33}, {}, 0xb83987ba7ace39bb, 0x4748279f0b54eaeb},
    {"layers.1.hc_attn_base", DType::f32, {24}, {}, 0xf274a33d800891bb, 0x7a54017b47845be7},
    {"layers.1.hc_ffn_scale", DType::f32, {3}, {}, 0x1eef9d3f92389f3f, 0x2fc84e213f13fcf5},
    {"layers.1.attn.attn_sink", DType::f32, {9}, {}, 0x38e3103d246a27bd, 0x7cd2b0c8c05fc054},
    {"embed.weight", DType::bf16, {33, 7}, {}, 0x2c3ca83c30bd09bc, 0x661f7f0a6212b40a},
    {"mtp.2.markov_head.embed.weight",
     DType::bf16,
     {33, 7},
     {},
     0x943e403f65bfe23e,
     0xa7383f62f68b4ff0},
    {"mtp.2.markov_head.head.weight",
     DType::bf16,
     {33, 7},
     {},
     0x16bd7d3c74bdf5bc,
     0x1fa224ae74f6ea84},
    {"mtp.2.confidence_head.proj.weight",
     DType::bf16,
     {1, 77},
     {},
     0x673d5b3d36bd4c3d,
     0x353c6a07390116eb},
    {"mtp.0.main_norm.weight", DType::bf16, {77}, {}, 0x813f983f9e3f883f, 0xc87cd06cff2fd1a2},
    // Formats that the release does not have.
    {"layers.0.attn.wq_a.weight", DType::bf16, {5, 96}, {}, 0xcebc553e363e243e, 0x07baf644acb28a7f},
    {"layers.0.ffn.experts.0.w1.weight",
     DType::f16,
     {5, 96},
     {},
     0x88b28530002369b0,
     0x7f24036eb3e1d50e},
    {"layers.0.ffn.gate.weight", DType::f32, {5, 96}, {}, 0x34406cbdb0c7cabb, 0x2ffa9fdeacda8881},
    {"layers.0.ffn.experts.0.w1.weight",
     DType::u8,
     {5, 48},
     {},
     0x1d27093172868717,
     0x2d57f735b83466ed},
    {"layers.0.ffn.experts.0.w1.weight_scale",
     DType::f8_e4m3,
     {5, 6},
     kNvfp4,
     0x69706a696d707472,
     0x22440b51160b7a09},
    {"layers.0.ffn.experts.0.w1.weight_scale_2",
     DType::f32,
     {},
     kNvfp4,
     0xfae2593900000000,
     0x051f3d89fea91caf},
    {"layers.0.ffn.experts.0.w1.input_scale",
     DType::f32,
     {},
     kNvfp4,
     0x0000803b00000000,
     0x4b724b7f9c5c3664},
    {"layers.0.attn.wo_b.weight_scale_inv",
     DType::f32,
     {2, 3},
     kFp8,
     0x1295103a6e152c3a,
     0xa74dd6c964092ac3},
};

std::vector<std::byte> bytes_of(const Row& row) {
  std::vector<std::byte> bytes(static_cast<size_t>(row.tensor().bytes()));
  row.values().fill(0, bytes);
  return bytes;
}

std::string label(const Row& row) { return str_cat(row.name, " ", dtype_name(row.dtype)); }

TEST(SyntheticTensor, ValuesOfEveryRule) {
  for (const Row& row : kRows) {
    const std::vector<std::byte> bytes = bytes_of(row);
    uint64_t first = 0;
    for (size_t i = 0; i < 8; ++i) {
      first = first << 8 | (i < bytes.size() ? std::to_integer<uint64_t>(bytes[i]) : 0);
    }
    EXPECT_EQ(first, row.first) << label(row);
    EXPECT_EQ(fnv(bytes), row.check) << label(row);
  }
}

TEST(SyntheticTensor, AnyPartHasTheBytesOfTheWhole) {
  for (const Row& row : kRows) {
    const std::vector<std::byte> whole = bytes_of(row);
    const int64_t width = dtype_bytes(row.dtype);
    const int64_t count = row.shape.elements();
    const SyntheticTensor values = row.values();
    for (int64_t first = 0; first < std::min<int64_t>(count, 20); ++first) {
      for (const int64_t wanted : {1, 3, 8, 13, 4096}) {
        const int64_t taken = std::min(wanted, count - first);
        std::vector<std::byte> part(static_cast<size_t>(taken * width));
        values.fill(first, part);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first * width))
            << label(row) << " from " << first << ", " << taken;
      }
    }
  }
}

TEST(SyntheticTensor, ThreadsDoNotChangeTheBytes) {
  Row large = kRows[0];
  large.shape = {700, 1000};  // several items, the last one short
  Row numbers = large;
  numbers.dtype = DType::f32;
  for (const Row& row : {large, numbers}) {
    const std::vector<std::byte> whole = bytes_of(row);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      const int64_t first = 5;
      std::vector<std::byte> part(whole.begin() + first * dtype_bytes(row.dtype), whole.end());
      const std::vector<std::byte> want = part;
      std::fill(part.begin(), part.end(), std::byte{0});
      row.values().fill(pool, first, part);
      EXPECT_TRUE(part == want) << threads;
    }
  }
}

// Also below 2^-14, where the steps are all the same.
TEST(SyntheticTensor, F16IsTheNearestNumber) {
  const TensorSpec f16 = {"layers.0.ffn.experts.0.w1.weight", DType::f16, {200, 5120}};
  TensorSpec f32 = f16;
  f32.dtype = DType::f32;
  std::vector<uint16_t> halves(static_cast<size_t>(f16.shape.elements()));
  std::vector<float> exact(halves.size());
  SyntheticTensor(f16, f16, 1).fill(0, std::as_writable_bytes(std::span(halves)));
  SyntheticTensor(f32, f32, 1).fill(0, std::as_writable_bytes(std::span(exact)));
  for (size_t i = 0; i < exact.size(); ++i) {
    const float error = std::fabs(f16_to_float(halves[i]) - exact[i]);
    for (const int step : {-1, 1}) {  // the code 0 has no smaller neighbour
      const int code = (halves[i] & 0x7fff) + step;
      if (code >= 0) {
        const uint16_t other = static_cast<uint16_t>((halves[i] & 0x8000) | code);
        ASSERT_LE(error, std::fabs(f16_to_float(other) - exact[i])) << exact[i];
      }
    }
  }
}

TEST(SyntheticTensor, TypesWithoutARule) {
  for (const TensorSpec& tensor :
       {TensorSpec{"a.weight", DType::i64, {2}}, TensorSpec{"a.scale", DType::bf16, {2}},
        TensorSpec{"a.weight_scale_2", DType::f8_e4m3, {2}}}) {
    try {
      SyntheticTensor(tensor, tensor, 1);
      ADD_FAILURE() << tensor.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(tensor.name), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
