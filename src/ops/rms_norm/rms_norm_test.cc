#include "ops/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/op_test.h"

namespace tessera {
namespace {

using test::OpContext;

const std::byte* bytes_of(const std::vector<bf16>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(RmsNorm, EveryLevelEqualsTheReferenceAndADoubleOracleBoundsIt) {
  for (const int64_t width : {1, 2, 15, 16, 17, 31, 33, 64, 257, 1024, 5120}) {
    constexpr int64_t kRows = 3;
    const std::vector<bf16> x = test::random_bf16(kRows * width, 1);
    const std::vector<bf16> weight = test::random_bf16(width, 2);
    std::vector<bf16> expected(x.size());
    OpContext reference(1, IsaLevel::reference);
    rms_norm(reference.ctx, x.data(), bytes_of(weight), kRows, width, 1e-20f, expected.data());
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        const double v = to_float(x[static_cast<size_t>(row * width + i)]);
        sum += v * v;
      }
      const double rstd = 1 / std::sqrt(sum / static_cast<double>(width) + 1e-20);
      for (int64_t i = 0; i < width; ++i) {
        const size_t at = static_cast<size_t>(row * width + i);
        const double exact = to_float(weight[static_cast<size_t>(i)]) * (to_float(x[at]) * rstd);
        // Half a bf16 step, and the three fp32 roundings before it.
        const double bound = std::fabs(exact) * (0x1p-8 + 3 * 0x1p-24);
        EXPECT_NEAR(to_float(expected[at]), exact, bound + 1e-30);
      }
    }
    for (const IsaLevel isa : supported_isas()) {
      OpContext op(2, isa);
      std::vector<bf16> y(x.size());
      rms_norm(op.ctx, x.data(), bytes_of(weight), kRows, width, 1e-20f, y.data());
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * 2), 0)
          << isa_name(isa) << " width " << width;
    }
  }
}

// A tiny row is normalised by its own size under eps 1e-20 and vanishes under eps 1e-6.
TEST(RmsNorm, EpsilonDecidesTinyRows) {
  const std::vector<bf16> x(64, to_bf16(1e-4f));
  const std::vector<bf16> weight(64, to_bf16(1.0f));
  std::vector<bf16> y(64);
  OpContext op;
  rms_norm(op.ctx, x.data(), bytes_of(weight), 1, 64, 1e-20f, y.data());
  EXPECT_EQ(to_float(y[0]), 1.0f);
  rms_norm(op.ctx, x.data(), bytes_of(weight), 1, 64, 1e-6f, y.data());
  EXPECT_NEAR(to_float(y[0]), 0.0995f, 0.0005f);
}

TEST(RmsNorm, WeightsMayBeUnaligned) {
  const std::vector<bf16> x = test::random_bf16(96, 3);
  const std::vector<bf16> weight = test::random_bf16(96, 4);
  std::vector<std::byte> shifted(96 * 2 + 1);
  std::memcpy(shifted.data() + 1, weight.data(), 96 * 2);
  OpContext op;
  std::vector<bf16> a(96), b(96);
  rms_norm(op.ctx, x.data(), bytes_of(weight), 1, 96, 1e-6f, a.data());
  rms_norm(op.ctx, x.data(), shifted.data() + 1, 1, 96, 1e-6f, b.data());
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace tessera
