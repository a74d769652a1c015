#include "ops/activation/activation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked_math.h"
#include "ops/activation/kernels.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const ActivationKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kActivationReference},
     {IsaLevel::avx2, &kActivationAvx2},
     {IsaLevel::avx512, &kActivationAvx512}}};

constexpr int64_t kChunk = 4096;  // elements per work item of flat loops

// e^-x^2 for 0.46 < x < 6: x^2 split so that the large part is exact, as Cody does.
double exp_minus_square(double x) {
  const double head = std::trunc(x * 16) / 16;
  const double rest = (x - head) * (x + head);
  // exp by range reduction in double; |error| a few 1e-16 relative.
  const auto exponential = [](double v) {
    const double n = std::nearbyint(v * 1.44269504088896340736);
    const double r = (v - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    for (int k = 12; k >= 0; --k) {
      constexpr double kInverseFactorial[13] = {1.0,
                                                1.0,
                                                1.0 / 2,
                                                1.0 / 6,
                                                1.0 / 24,
                                                1.0 / 120,
                                                1.0 / 720,
                                                1.0 / 5040,
                                                1.0 / 40320,
                                                1.0 / 362880,
                                                1.0 / 3628800,
                                                1.0 / 39916800,
                                                1.0 / 479001600};
      p = p * r + kInverseFactorial[k];
    }
    return std::ldexp(p, static_cast<int>(n));
  };
  return exponential(-head * head) * exponential(-rest);
}

float gelu_f32(float x) {
  const float inner = static_cast<float>(erf_double(static_cast<double>(x * 0.70710678f)));
  return x * 0.5f * (1.0f + inner);
}

}  // namespace

// Cody, Rational Chebyshev approximations for the error function, 1969: |x| <= 0.46875 and up to 4;
// beyond 4 erf differs from 1 by less than 2e-8 and the middle form is still good to 1e-15
// absolute.
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

void silu_mul(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width, bf16* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->silu_mul_bf16(&x[row * 2 * width].bits, width, &y[row * width].bits);
  });
}

void silu_mul(ExecContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->silu_mul_f32(x + row * 2 * width, width, y + row * width);
  });
}

void swiglu(ExecContext& ctx, const bf16* gate, const bf16* up, const float* weight, int64_t rows,
            int64_t width, float limit, bf16* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->swiglu(&gate[row * width].bits, &up[row * width].bits,
                    weight != nullptr ? weight[row] : 1.0f, width, limit, &y[row * width].bits);
  });
}

void gelu(ExecContext& ctx, const bf16* x, int64_t count, bf16* y) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      y[i] = to_bf16(gelu_f32(to_float(x[i])));
    }
  });
}

void gelu(ExecContext& ctx, const float* x, int64_t count, float* y) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      y[i] = gelu_f32(x[i]);
    }
  });
}

void add(ExecContext& ctx, bf16* x, const bf16* y, int64_t count) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    const int64_t first = chunk * kChunk;
    kernels->add_bf16(&x[first].bits, &y[first].bits, std::min(kChunk, count - first));
  });
}

void add(ExecContext& ctx, float* x, const float* y, int64_t count) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      x[i] += y[i];
    }
  });
}

}  // namespace tessera
