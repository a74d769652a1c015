#include <gtest/gtest.h>

#include <vector>

#include "ops/linear/linear.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

TEST(linear_threads, many_calls_on_three_threads) {
  ThreadPool one(1), three(3);
  Arena scratch;
  ExecContext alone{one, scratch, active_isa(), {}};
  ExecContext together{three, scratch, active_isa(), {}};
  test::OwnedLayer fp8(test::Format::fp8_block, 130, 256, 1);
  test::OwnedLayer mxfp4(test::Format::mxfp4, 200, 256, 2);
  fp8.layer().input = InputRule::e4m3_32;
  const std::vector<bf16> x = test::random_inputs(40 * 256, 3);
  for (const int64_t rows : {1, 12, 40}) {
    std::vector<bf16> y(static_cast<size_t>(rows * 330)), expected(y.size());
    for (int run = 0; run < 3; ++run) {
      const auto calls = [&](std::vector<bf16>& to) {
        return std::vector<LinearCall>{
            {x.data(), rows, &fp8.layer(), to.data(), DType::bf16},
            {x.data(), rows, &mxfp4.layer(), to.data() + rows * 130, DType::bf16}};
      };
      linear_many(alone, calls(expected));
      linear_many(together, calls(y));
      ASSERT_EQ(y, expected);
    }
  }
}

}  // namespace
}  // namespace tessera
