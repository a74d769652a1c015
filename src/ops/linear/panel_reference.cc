#include <bit>
#include <cmath>
#include <cstring>

#include "base/float_types.h"
#include "ops/linear/formats/unpack.h"
#include "ops/linear/panel.h"

namespace tessera::kernels {
namespace {

// float x(int64_t row, int64_t input), float w(const std::byte* panel, int64_t input, int64_t lane)
template <typename X, typename W>
void multiply(const MultiplyArgs& args, const X& x, const W& w) {
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t o = 0; o < args.panels * kPanelRows; ++o) {
      const std::byte* panel = args.w + o / kPanelRows * args.w_panel_bytes;
      const int64_t lane = o % kPanelRows;
      float a = args.is_first ? 0.0f : args.acc[r * args.acc_stride + o];
      for (int64_t k = 0; k < args.inputs; k += 2) {
        a = std::fma(x(r, k + 1), w(panel, k + 1, lane), a);
        a = std::fma(x(r, k), w(panel, k, lane), a);
      }
      args.acc[r * args.acc_stride + o] = a;
    }
  }
}

float from_f32_panel(const void* panel, int64_t input, int64_t lane) {
  return static_cast<const float*>(panel)[input * kPanelRows + lane];
}

float from_pair_panel(const void* panel, int64_t input, int64_t lane) {
  return to_float(
      static_cast<const bf16*>(panel)[(input / 2 * kPanelRows + lane) * 2 + (input & 1)]);
}

float finished(const StoreArgs& args, int64_t row, int64_t output) {
  const float a = args.acc[row * args.acc_stride + output] * args.factor;
  if (args.bias == nullptr) {
    return a;
  }
  bf16 bias;
  std::memcpy(&bias, args.bias + output * 2, sizeof(bias));
  return a + to_float(bias);
}

}  // namespace

void multiply_f32_reference(const MultiplyArgs& args) noexcept {
  if (args.x_stride > 0) {
    multiply(
        args,
        [&args](int64_t row, int64_t input) {
          return static_cast<const float*>(args.x)[row * args.x_stride + input];
        },
        from_f32_panel);
  } else {
    multiply(
        args,
        [&args](int64_t row, int64_t input) {
          return static_cast<const float*>(args.x)[input * args.x_input_stride + row];
        },
        from_f32_panel);
  }
}

void multiply_pairs_reference(const MultiplyArgs& args) noexcept {
  multiply(
      args, [&args](int64_t row, int64_t input) { return from_pair_panel(args.x, input, row); },
      from_pair_panel);
}

void fold_reference(const FoldArgs& args) noexcept {
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t o = 0; o < args.panels * kPanelRows; ++o) {
      const int64_t at = r * args.acc_stride + o;
      const float before = args.is_first ? 0.0f : args.acc[at];
      args.acc[at] = std::fma(args.part[at], args.scales[o / kPanelRows], before);
    }
  }
}

void store_bf16_reference(const StoreArgs& args) noexcept {
  for (int64_t r = 0; r < args.rows; ++r) {
    bf16* y = static_cast<bf16*>(args.y) + r * args.y_stride;
    for (int64_t o = 0; o < args.outputs; ++o) {
      y[o] = to_bf16(finished(args, r, o));
    }
  }
}

void store_f32_reference(const StoreArgs& args) noexcept {
  for (int64_t r = 0; r < args.rows; ++r) {
    float* y = static_cast<float*>(args.y) + r * args.y_stride;
    for (int64_t o = 0; o < args.outputs; ++o) {
      y[o] = finished(args, r, o);
    }
  }
}

bool is_dot_faster() {
  static const bool is_faster = [] {
    const DotTicks ticks = measure_dot_avx512();
    return ticks.dot < ticks.fma;
  }();
  return is_faster;
}

}  // namespace tessera::kernels
