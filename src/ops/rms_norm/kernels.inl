// One source for every level; included by reference.cc, avx2.cc and avx512.cc.
#include "ops/rms_norm/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

inline float load(const uint16_t* x, int64_t i) { return widen_bf16(x[i]); }
inline float load(const float* x, int64_t i) { return x[i]; }
inline void store(uint16_t* y, int64_t i, float value) { y[i] = narrow_bf16(value); }
inline void store(float* y, int64_t i, float value) { y[i] = value; }

inline float load_weight(const std::byte* weight, int64_t i) {
  uint16_t bits;
  __builtin_memcpy(&bits, weight + 2 * i, 2);
  return widen_bf16(bits);
}

template <typename T>
inline double rstd_of(const T* x, int64_t width, float eps) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double v = static_cast<double>(load(x, i + l));
      lanes[l] += v * v;
    }
  }
  for (int64_t l = 0; i + l < width; ++l) {
    const double v = static_cast<double>(load(x, i + l));
    lanes[l] += v * v;
  }
  for (int64_t step = kLanes / 2; step > 0; step /= 2) {
    for (int64_t l = 0; l < step; ++l) {
      lanes[l] += lanes[l + step];
    }
  }
  const double mean = lanes[0] / static_cast<double>(width);
  return 1.0 / __builtin_sqrt(mean + static_cast<double>(eps));
}

template <typename T>
inline void normalise(const T* x, const std::byte* weight, int64_t width, float eps, T* y) {
  const double rstd = rstd_of(x, width, eps);
  for (int64_t i = 0; i < width; ++i) {
    const float unit = static_cast<float>(static_cast<double>(load(x, i)) * rstd);
    store(y, i, load_weight(weight, i) * unit);
  }
}

float rstd_bf16(const uint16_t* x, int64_t width, float eps) noexcept {
  return static_cast<float>(rstd_of(x, width, eps));
}
void row_bf16(const uint16_t* x, const std::byte* weight, int64_t width, float eps,
              uint16_t* y) noexcept {
  normalise(x, weight, width, eps, y);
}
void row_f32(const float* x, const std::byte* weight, int64_t width, float eps, float* y) noexcept {
  normalise(x, weight, width, eps, y);
}

}  // namespace
}  // namespace tessera
