#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

constexpr int64_t kMixRowBlock = 4;  // rows that share one pass over the weights

struct HyperConnectionKernels {
  // m[r * outputs] = sum_i x[r][i] * w[i] for up to kMixRowBlock rows of bf16 bits, one output's
  // fp32 weights w of any alignment.
  void (*project)(const uint16_t* const* x, int64_t rows, const std::byte* w, int64_t width,
                  float* m, int64_t outputs) noexcept;
};

extern const HyperConnectionKernels kHyperConnectionReference;
extern const HyperConnectionKernels kHyperConnectionAvx2;
extern const HyperConnectionKernels kHyperConnectionAvx512;

}  // namespace tessera
