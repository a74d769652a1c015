// A product whose weights come from a mapped file, in as many parts as there is room for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/residency.h"
#include "ops/linear/linear.h"
#include "tests/support/op_test.h"

namespace tessera {
namespace {

constexpr int64_t kOutputs = 2000, kInputs = 1024, kRows = 3;

// Random bytes as weights of several formats: one behind the other in a file.
class LinearResidency : public testing::Test {
 protected:
  LinearResidency() {
    path_ = testing::TempDir() + "linear_residency_XXXXXX";
    ::close(::mkstemp(path_.data()));
    const std::vector<bf16> values = test::random_bf16(kOutputs * kInputs, 1);
    std::vector<char> bytes(values.size() * 2);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    // Codes that are never NaN, and scales near 1.
    for (int64_t i = 0; i < kOutputs * kInputs; ++i) {
      bytes.push_back(static_cast<char>(i * 37 % 120));
    }
    bytes.insert(bytes.end(), static_cast<size_t>(kOutputs * kInputs / 32), 120);
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  ~LinearResidency() override { ::unlink(path_.c_str()); }

  std::string path_;
};

TEST_F(LinearResidency, PartsGiveTheSameBits) {
  const MappedFile file(path_);
  const std::byte* dense = file.bytes().data();
  const std::byte* codes = dense + kOutputs * kInputs * 2;
  const std::byte* scales = codes + kOutputs * kInputs;
  const std::vector<bf16> bias = test::random_bf16(kOutputs, 2);
  const std::byte* bias_bytes = reinterpret_cast<const std::byte*>(bias.data());
  const Linear layers[] = {{.weight = {WeightBf16{dense}, kOutputs, kInputs}, .bias = bias_bytes},
                           {.weight = {WeightFp8Block{codes, scales, 128}, kOutputs, kInputs}},
                           {.weight = {WeightMxfp4{codes, scales}, kOutputs, kInputs}}};
  const std::vector<bf16> x = test::random_bf16(kRows * kInputs, 3);
  test::OpContext op;
  std::vector<bf16> expected[3];
  std::vector<bf16> found[3];
  std::vector<float> expected_f32(kRows * kOutputs), found_f32(kRows * kOutputs);
  std::vector<LinearCall> calls;
  for (size_t i = 0; i < 3; ++i) {
    expected[i].resize(kRows * kOutputs);
    found[i].resize(kRows * kOutputs);
    linear(op.ctx, x.data(), kRows, layers[i], expected[i].data());
    calls.push_back({x.data(), kRows, &layers[i], found[i].data(), DType::bf16});
  }
  linear(op.ctx, x.data(), kRows, layers[1], expected_f32.data());
  calls.push_back({x.data(), kRows, &layers[1], found_f32.data(), DType::f32});

  // Room for a part of the bf16 weight, and for no two of the others.
  const ByteSpan bytes = file.bytes();
  release_pages(bytes);
  const int64_t limit = (ResidentMemory().bytes() + (int64_t{10} << 20)) * 32 / 31;
  Residency residency({.limit_bytes = limit}, {&bytes, 1});
  ASSERT_LT(residency.budget_bytes(), kOutputs * kInputs * 2);
  op.ctx.residency = &residency;
  linear_many(op.ctx, calls);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * 2), 0) << i;
  }
  EXPECT_EQ(std::memcmp(found_f32.data(), expected_f32.data(), found_f32.size() * 4), 0);
  EXPECT_GE(residency.statistics().used_bytes, kOutputs * kInputs * 4);
}

}  // namespace
}  // namespace tessera
