#include "ops/scalar_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(ScalarMath, ExpAndSoftplusAgreeWithTheLibrary) {
  double worst_exp = 0, worst_softplus = 0;
  for (double x = -600; x < 600; x += 0.0171) {
    worst_exp = std::fmax(worst_exp, std::fabs(exp_double(x) / std::exp(x) - 1));
    if (x < 300) {
      worst_softplus =
          std::fmax(worst_softplus, std::fabs(softplus_double(x) / std::log1p(std::exp(x)) - 1));
    }
  }
  EXPECT_LT(worst_exp, 1e-15);
  EXPECT_LT(worst_softplus, 1e-14);
  EXPECT_EQ(sigmoid_double(0.0), 0.5);
}

TEST(ScalarMath, ErfAgreesWithTheLibrary) {
  double worst = 0;
  for (double x = -7; x <= 7; x += 0.0003) {
    worst = std::fmax(worst, std::fabs(erf_double(x) - std::erf(x)));
  }
  EXPECT_LT(worst, 1e-15);
}

}  // namespace
}  // namespace tessera
