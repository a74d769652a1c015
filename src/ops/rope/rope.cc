#include "ops/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tessera {
namespace {

// pi/2 in three parts of 33 bits (fdlibm): products with |n| < 2^20 are exact.
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624871116645580e-21;

// Taylor series on |r| <= pi/4: the first term left out is below 1e-17.
double sin_series(double r) {
  const double z = r * r;
  double p = -7.6471637318198164759e-13;  // -1/15!
  p = p * z + 1.6059043836821614599e-10;
  p = p * z - 2.5052108385441718775e-08;
  p = p * z + 2.7557319223985890653e-06;
  p = p * z - 1.9841269841269841270e-04;
  p = p * z + 8.3333333333333333333e-03;
  p = p * z - 1.6666666666666666667e-01;
  return r + r * z * p;
}

double cos_series(double r) {
  const double z = r * r;
  double p = 4.7794773323873852974e-14;  // 1/16!
  p = p * z - 1.1470745597729724714e-11;
  p = p * z + 2.0876756987868098979e-09;
  p = p * z - 2.7557319223985890653e-07;
  p = p * z + 2.4801587301587301587e-05;
  p = p * z - 1.3888888888888888889e-03;
  p = p * z + 4.1666666666666666667e-02;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

float load(bf16 x) { return to_float(x); }
float load(float x) { return x; }
void store(bf16& y, float value) { y = to_bf16(value); }
void store(float& y, float value) { y = value; }

template <typename T>
void rotate_halves_of(ExecContext& ctx, T* x, int64_t rows, int64_t stride, int64_t vectors,
                      int64_t width, const float* cos, const float* sin) {
  const int64_t half = width / 2;
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    const float* c = cos + row * half;
    const float* s = sin + row * half;
    for (int64_t v = 0; v < vectors; ++v) {
      T* low = x + row * stride + v * width;
      T* high = low + half;
      for (int64_t i = 0; i < half; ++i) {
        const float a = load(low[i]);
        const float b = load(high[i]);
        store(low[i], a * c[i] - b * s[i]);
        store(high[i], b * c[i] + a * s[i]);
      }
    }
  });
}

}  // namespace

void cos_sin(float angle, float* cos, float* sin) noexcept {
  const double x = static_cast<double>(angle);
  const double n = std::nearbyint(x * (2 / std::numbers::pi));
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = sin_series(r);
  const double c = cos_series(r);
  const int64_t quadrant = static_cast<int64_t>(n) & 3;
  const double sines[4] = {s, c, -s, -c};
  *sin = static_cast<float>(sines[quadrant]);
  *cos = static_cast<float>(sines[(quadrant + 1) & 3]);
}

std::vector<float> rope_frequencies(int64_t rotary, double theta, const YarnScaling& yarn) {
  const int64_t count = rotary / 2;
  std::vector<float> frequencies(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary);
    const float power = static_cast<float>(std::pow(theta, exponent));
    frequencies[static_cast<size_t>(i)] = 1.0f / power;
  }
  if (yarn.original_positions <= 0) {
    return frequencies;
  }
  // Peng et al. 2023 (YaRN), equation 23: dimensions between `low` and `high` are blended.
  const auto correction = [&](double rotations) {
    return static_cast<double>(rotary) *
           std::log(static_cast<double>(yarn.original_positions) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(std::floor(correction(yarn.beta_fast)), 0.0);
  double high = std::min(std::ceil(correction(yarn.beta_slow)), static_cast<double>(rotary - 1));
  if (low == high) {
    high += 0.001;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float ramp = static_cast<float>((static_cast<double>(i) - low) / (high - low));
    const float smooth = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    float& f = frequencies[static_cast<size_t>(i)];
    f = f / static_cast<float>(yarn.factor) * (1.0f - smooth) + f * smooth;
  }
  return frequencies;
}

void rope_tables(ExecContext& ctx, const int64_t* positions, int64_t rows,
                 const std::vector<float>& frequencies, float* cos, float* sin) {
  const int64_t count = static_cast<int64_t>(frequencies.size());
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    const float position = static_cast<float>(positions[row]);
    for (int64_t i = 0; i < count; ++i) {
      cos_sin(position * frequencies[static_cast<size_t>(i)], cos + row * count + i,
              sin + row * count + i);
    }
  });
}

void rotate_adjacent(ExecContext& ctx, bf16* x, int64_t rows, int64_t vectors, int64_t width,
                     int64_t rotary, const float* cos, const float* sin, Rotation rotation) {
  TESSERA_CHECK(rotary <= width && rotary % 2 == 0);
  const float sign = rotation == Rotation::forward ? 1.0f : -1.0f;
  const int64_t half = rotary / 2;
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    const float* c = cos + row * half;
    const float* s = sin + row * half;
    for (int64_t v = 0; v < vectors; ++v) {
      bf16* pair = x + (row * vectors + v) * width + (width - rotary);
      for (int64_t i = 0; i < half; ++i) {
        const float a = to_float(pair[2 * i]);
        const float b = to_float(pair[2 * i + 1]);
        const float sine = sign * s[i];
        pair[2 * i] = to_bf16(a * c[i] - b * sine);
        pair[2 * i + 1] = to_bf16(a * sine + b * c[i]);
      }
    }
  });
}

void rotate_halves(ExecContext& ctx, bf16* x, int64_t rows, int64_t stride, int64_t vectors,
                   int64_t width, const float* cos, const float* sin) {
  rotate_halves_of(ctx, x, rows, stride, vectors, width, cos, sin);
}

void rotate_halves(ExecContext& ctx, float* x, int64_t rows, int64_t stride, int64_t vectors,
                   int64_t width, const float* cos, const float* sin) {
  rotate_halves_of(ctx, x, rows, stride, vectors, width, cos, sin);
}

}  // namespace tessera
