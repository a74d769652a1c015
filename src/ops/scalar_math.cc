#include "ops/scalar_math.h"

#include <cmath>

namespace tessera {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits: n * kLn2High is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;

// e^-x^2: x^2 split so that the large part is exact, as Cody does.
double exp_minus_square(double x) {
  const double head = std::trunc(x * 16) / 16;
  const double rest = (x - head) * (x + head);
  return exp_double(-head * head) * exp_double(-rest);
}

// log(1 + y) for y >= 0 as 2 atanh(s); beyond 0.4 with the exponent split off first.
double log1p_double(double y) {
  int exponent = 0;
  double s = y / (2.0 + y);
  if (y >= 0.4) {
    double m = std::frexp(1.0 + y, &exponent);
    if (m < 0.70710678118654752) {
      m *= 2;
      --exponent;
    }
    s = (m - 1.0) / (m + 1.0);
  }
  const double z = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) {
    sum = sum * z + 1.0 / k;
  }
  return 2 * s * sum + exponent * 0.69314718055994530942;
}

}  // namespace

double exp_double(double x) noexcept {
  const double n = std::nearbyint(x * 1.44269504088896340736);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double e = 1.0;
  for (int k = 14; k >= 1; --k) {
    e = 1.0 + e * r / k;
  }
  return std::ldexp(e, static_cast<int>(n));
}

double softplus_double(double x) noexcept { return log1p_double(exp_double(x)); }

// Forms for |x| <= 0.46875 and up to 4; beyond 4 erf differs from 1 by less than 2e-8 and the
// middle form is still good to 1e-15 absolute.
double erf_double(double x) noexcept {
  const double y = std::fabs(x);
  if (y <= 0.46875) {
    const double z = y * y;
    double a = 1.85777706184603153e-1;
    double b = z;
    constexpr double kA[4] = {3.16112374387056560e00, 1.13864154151050156e02,
                              3.77485237685302021e02, 3.20937758913846947e03};
    constexpr double kB[4] = {2.36012909523441209e01, 2.44024637934444173e02,
                              1.28261652607737228e03, 2.84423683343917062e03};
    a = a * z;
    for (int i = 0; i < 3; ++i) {
      a = (a + kA[i]) * z;
      b = (b + kB[i]) * z;
    }
    return x * (a + kA[3]) / (b + kB[3]);
  }
  if (y >= 6.0) {
    return x > 0 ? 1.0 : -1.0;
  }
  constexpr double kC[9] = {5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01,
                            2.98635138197400131e02, 8.81952221241769090e02, 1.71204761263407058e03,
                            2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8};
  constexpr double kD[8] = {1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02,
                            1.62138957456669019e03, 3.29079923573345963e03, 4.36261909014324716e03,
                            3.43936767414372164e03, 1.23033935480374942e03};
  double a = kC[8] * y;
  double b = y;
  for (int i = 0; i < 7; ++i) {
    a = (a + kC[i]) * y;
    b = (b + kD[i]) * y;
  }
  const double complement = (a + kC[7]) / (b + kD[7]) * exp_minus_square(y);
  return x > 0 ? 1.0 - complement : complement - 1.0;
}

}  // namespace tessera
