// y[t,o] = round( bias[o] + sum_i x[t,i] * W[o,i] )      the one matrix product of the engine.
//
// Summation order is part of the contract (docs/numerics.md): one fp32 accumulator per output,
// started at +0, inputs ascending in pairs, the odd element of a pair first:
//   a = fma(x[2k+1], w[2k+1], a);  a = fma(x[2k], w[2k], a)       (a last single element: one fma)
// which is what vdpbf16ps computes. Subnormals are flushed (inputs and results), as there. Then
// a + bias (one fp32 addition, when there is a bias), then one rounding to the output type. The
// result of a row depends on that row and the weight alone: never on the number of rows, the thread
// count, the kernel level or the neighbours in linear_many. NaN results are NaN; their bits are not
// specified. Every format whose scaled value is exact in bf16 is unpacked to bf16
// and summed like bf16 (FP8 and FP4 with power-of-two scales).
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "base/float_types.h"
#include "tensor/dtype.h"
#include "tensor/exec_context.h"

namespace tessera {

// Weights borrow mapped memory of any alignment, row-major [outputs, inputs].
struct WeightBf16 {
  const std::byte* data = nullptr;  // bf16
};
struct WeightF32 {
  const std::byte* data = nullptr;  // float
};
// Release FP8: value = e4m3(code) * 2^(scale-127), one scale per tile of `block` x `block`; `block`
// is a multiple of 32.
struct WeightFp8Block {
  const std::byte* codes = nullptr;   // E4M3 [outputs, inputs]
  const std::byte* scales = nullptr;  // E8M0 [ceil(outputs/block), ceil(inputs/block)]
  int64_t block = 32;
};
// Release experts: value = e2m1(code) * 2^(scale-127), one scale per row and 32 inputs; the low
// nibble of a byte is the even input. Code 8 is +0, as in the released reference's table. `inputs`
// is a multiple of 32.
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

// One of several products that run as one loop over the threads.
struct LinearCall {
  const bf16* x = nullptr;
  int64_t rows = 0;
  const Linear* layer = nullptr;
  void* y = nullptr;
  DType out = DType::bf16;     // bf16 or f32
  const float* x32 = nullptr;  // instead of x: fp32 activations; out must be f32
};
// What `linear` does once, for any number of calls at a time: several layers of one x (w1 and w3),
// or the experts of a decode step. The results equal those of single calls; no y may alias
// another call's x or y. Memory comes from ctx.scratch and is given back.
void linear_many(ExecContext& ctx, std::span<const LinearCall> calls);

// Unpacks rows [first, first + count) of a weight to [count, inputs]: the plain definition of every
// format. Values are exact in bf16, except those of the f32 format, which only the second form
// takes. Scaled values below the smallest normal number are zeros, above the largest infinities.
void dequantize_rows(const Weight& weight, int64_t first, int64_t count, bf16* out);
void dequantize_rows(const Weight& weight, int64_t first, int64_t count, float* out);

}  // namespace tessera
