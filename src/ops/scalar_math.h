// Elementary functions in double for scalar code: ours, not libm's, so that every machine gives the
// same bits. Used where a result is rounded to fp32 or bf16 once.
#pragma once

namespace tessera {

// e^x by range reduction and a Taylor series; relative error below 1e-15 for |x| < 700.
double exp_double(double x) noexcept;

// log(1 + e^x), relative error below 1e-14.
double softplus_double(double x) noexcept;

// 1 / (1 + e^-x)
inline double sigmoid_double(double x) noexcept { return 1.0 / (1.0 + exp_double(-x)); }

// |error| < 1e-15. Cody, Rational Chebyshev approximations for the error function, 1969.
double erf_double(double x) noexcept;

}  // namespace tessera
