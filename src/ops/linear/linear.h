// y[t,o] = round( bias[o] + sum_i x[t,i] * W[o,i] )      the one matrix product of the engine.
//
// Summation order is part of the contract (docs/numerics.md): one fp32 accumulator per output,
// started at +0, inputs ascending in pairs, the odd element of a pair first:
//   a = fma(x[2k+1], w[2k+1], a);  a = fma(x[2k], w[2k], a)       (a last single element: one fma)
// which is what vdpbf16ps computes. Subnormals are flushed (inputs and results), as there. Then
// a + bias (one fp32 addition, when there is a bias), then one rounding to the output type. The
// result of a row depends on that row and the weight alone: never on the number of rows, the thread
// count or the kernel level. Every format whose scaled value is exact in bf16 is unpacked to bf16
// and summed like bf16 (FP8 and FP4 with power-of-two scales).
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// Weights borrow mapped memory of any alignment, row-major [outputs, inputs].
struct WeightBf16 {
  const std::byte* data = nullptr;  // bf16
};
struct WeightF32 {
  const std::byte* data = nullptr;  // float
};
// Release FP8: value = e4m3(code) * 2^(scale-127), one scale per tile of `block` x `block`.
struct WeightFp8Block {
  const std::byte* codes = nullptr;   // E4M3 [outputs, inputs]
  const std::byte* scales = nullptr;  // E8M0 [ceil(outputs/block), ceil(inputs/block)]
  int64_t block = 32;
};
// Release experts: value = e2m1(code) * 2^(scale-127), one scale per row and 32 inputs; the low
// nibble of a byte is the even input.
struct WeightMxfp4 {
  const std::byte* codes = nullptr;   // [outputs, inputs/2]
  const std::byte* scales = nullptr;  // E8M0 [outputs, inputs/32]
};

struct Weight {
  std::variant<WeightBf16, WeightF32, WeightFp8Block, WeightMxfp4> format;
  int64_t outputs = 0;
  int64_t inputs = 0;
};

enum class InputRule {
  none,     // x as it is
  e4m3_32,  // x quantised and dequantised to E4M3 in groups of 32 with power-of-two scales
            // (quantize.h)
};

// A layer's matrix with what belongs to its role: W, the rule for its input and an optional bias.
struct Linear {
  Weight weight;
  InputRule input = InputRule::none;
  const std::byte* bias = nullptr;  // bf16 [outputs] of any alignment, or nullptr
};

// x [rows, inputs] bf16, y [rows, outputs]; both contiguous, 64-byte aligned rows not required; y
// must not alias x. Any rows >= 0. Weights: all formats; the f32 format multiplies fp32 weights by
// widened x.
void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, bf16* y);
void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, float* y);
// fp32 activations (`--activations f32`): formats bf16 and f32, input rule none; result not
// rounded.
void linear(ExecContext& ctx, const float* x, int64_t rows, const Linear& layer, float* y);

// Unpacks rows [first, first + count) of a weight to bf16 [count, inputs] (fp32 weights: float).
// The plain definition of every format; used by tests and by operations that need the dense matrix.
void dequantize_rows(const Weight& weight, int64_t first, int64_t count, bf16* out);

}  // namespace tessera
