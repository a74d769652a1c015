// One source for every level; included by reference.cc, avx2.cc and avx512.cc.
#include "ops/hyper_connections/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

void project(const uint16_t* const* x, int64_t rows, const std::byte* w, int64_t width, float* m,
             int64_t outputs) noexcept {
  double lanes[kMixRowBlock][kLanes] = {};
  const uint16_t* row[kMixRowBlock];
  for (int64_t r = 0; r < kMixRowBlock; ++r) {
    row[r] = x[r < rows ? r : 0];
  }
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    float weight[kLanes];
    __builtin_memcpy(weight, w + 4 * i, sizeof(weight));
    for (int64_t r = 0; r < kMixRowBlock; ++r) {
      for (int64_t l = 0; l < kLanes; ++l) {
        lanes[r][l] +=
            static_cast<double>(widen_bf16(row[r][i + l])) * static_cast<double>(weight[l]);
      }
    }
  }
  for (int64_t l = 0; i + l < width; ++l) {
    float weight;
    __builtin_memcpy(&weight, w + 4 * (i + l), 4);
    for (int64_t r = 0; r < kMixRowBlock; ++r) {
      lanes[r][l] += static_cast<double>(widen_bf16(row[r][i + l])) * static_cast<double>(weight);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t step = kLanes / 2; step > 0; step /= 2) {
      for (int64_t l = 0; l < step; ++l) {
        lanes[r][l] += lanes[r][l + step];
      }
    }
    m[r * outputs] = static_cast<float>(lanes[r][0]);
  }
}

}  // namespace
}  // namespace tessera
