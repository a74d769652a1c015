#include "ops/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

TEST(VectorMath, ExpStaysWithinItsErrorBoundOverTheWholeRange) {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.00037) {
    const float argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    worst = std::fmax(worst, std::fabs(static_cast<double>(exp_f32(argument)) - exact) / exact);
  }
  EXPECT_LT(worst, 1.2e-7);  // one unit in the last place is 2^-23 = 1.19e-7
}

TEST(VectorMath, ExpAtTheEdges) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-88.0f), 0.0f);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isinf(exp_f32(89.0f)));
  EXPECT_TRUE(std::isfinite(exp_f32(88.7f)));
  EXPECT_EQ(sigmoid_f32(0.0f), 0.5f);
}

}  // namespace
}  // namespace tessera
