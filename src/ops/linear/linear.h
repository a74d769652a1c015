// y[t,o] = round( bias[o] + sum_i x[t,i] * W[o,i] )      the one matrix product of the engine.
//
// Summation order is part of the contract (docs/numerics.md): one fp32 accumulator per output,
// started at +0, inputs ascending in pairs, the odd element of a pair first:
//   a = fma(x[2k+1], w[2k+1], a);  a = fma(x[2k], w[2k], a)       (a last single element: one fma)
// which is what vdpbf16ps computes. Subnormals are flushed (inputs and results), as there. Then
// a * factor (one fp32 product: global scales of weight and input, 1 for most formats), + bias (one
// fp32 addition, when there is a bias), then one rounding to the output type. The result of a row
// depends on that row and the weight alone: never on the number of rows, the thread count, the
// kernel level or the neighbours in linear_many. NaN results are NaN; their bits are not specified.
// Every format whose scaled value is exact in bf16 is unpacked to bf16 and summed like bf16 (FP8
// and FP4 with power-of-two scales).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/float_types.h"
#include "tensor/dtype.h"
#include "tensor/exec_context.h"

namespace tessera {

// Weights borrow mapped memory of any alignment, row-major [outputs, inputs]. Each format is a
// folder under formats/ with a line in formats/format.cc.
struct WeightBf16 {
  const std::byte* codes = nullptr;  // bf16
};
struct WeightF16 {
  const std::byte* codes = nullptr;  // IEEE binary16
};
struct WeightF32 {
  const std::byte* codes = nullptr;  // float
};
// Release FP8: value = e4m3(code) * 2^(scale-127), one scale per tile of `block` x `block`; `block`
// is a multiple of 32.
struct WeightFp8Block {
  const std::byte* codes = nullptr;   // E4M3 [outputs, inputs]
  const std::byte* scales = nullptr;  // E8M0 [ceil(outputs/block), ceil(inputs/block)]
  int64_t block = 32;
};
// DeepSeek-V3 style FP8: value = e4m3(code) * scale. Sums of the codes' products over the inputs of
// one tile are multiplied by its scale and added up: a = fma(sum, scale, a), tiles ascending.
struct WeightFp8Scaled {
  const std::byte* codes = nullptr;   // E4M3 [outputs, inputs]
  const std::byte* scales = nullptr;  // [ceil(outputs/block), ceil(inputs/block)]
  int64_t block = 128;                // a multiple of 32
  DType scale_type = DType::f32;      // or bf16
};
// Release experts: value = e2m1(code) * 2^(scale-127), one scale per row and 32 inputs; the low
// nibble of a byte is the even input. Code 8 is +0, as in the released reference's table. `inputs`
// is a multiple of 32.
struct WeightMxfp4 {
  const std::byte* codes = nullptr;   // [outputs, inputs/2]
  const std::byte* scales = nullptr;  // E8M0 [outputs, inputs/32]
};
// NVIDIA ModelOpt: value = e2m1(code) * e4m3(scale) * global, one scale per row and 16 inputs,
// nibbles as above. The global scale multiplies the finished sums. `inputs` is a multiple of 16.
struct WeightNvfp4 {
  const std::byte* codes = nullptr;   // [outputs, inputs/2]
  const std::byte* scales = nullptr;  // E4M3 [outputs, inputs/16]
  float global = 1;
};

struct Weight {
  std::variant<WeightBf16, WeightF16, WeightF32, WeightFp8Block, WeightFp8Scaled, WeightMxfp4,
               WeightNvfp4>
      format;
  int64_t outputs = 0;
  int64_t inputs = 0;
};

enum class InputRule {
  none,     // x as it is
  e4m3_32,  // x quantised and dequantised to E4M3 in groups of 32 with power-of-two scales
            // (quantize.h)
  e2m1_16,  // x quantised to E2M1 in groups of 16 with E4M3 scales, as calibrated: quantize.h,
            // quantize_e2m1_calibrated; Linear::input_scale then multiplies the finished sums
};

// A layer's matrix with what belongs to its role: W, the rule for its input and an optional bias.
struct Linear {
  Weight weight;
  InputRule input = InputRule::none;
  float input_scale = 1;            // of rule e2m1_16, else 1
  const std::byte* bias = nullptr;  // bf16 [outputs] of any alignment, or nullptr
};

// x [rows, inputs] bf16, y [rows, outputs]; both contiguous, 64-byte aligned rows not required; y
// must not alias x. Any rows >= 0. Weights: all formats; f32 and f16 weights are multiplied as fp32
// by widened x.
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
// Sees the calls of linear_many before they run, on the thread that makes them
// (ExecContext::observer): to measure inputs. Must not change anything.
class LinearObserver {
 public:
  virtual ~LinearObserver() = default;
  virtual void see(const LinearCall& call) = 0;
};

// What `linear` does once, for any number of calls at a time: several layers of one x (w1 and w3),
// or the experts of a decode step. The results equal those of single calls; no y may alias
// another call's x or y. Memory comes from ctx.scratch and is given back.
void linear_many(ExecContext& ctx, std::span<const LinearCall> calls);

// The stored bytes of a weight: its codes, and its scales (empty for formats without).
std::array<std::span<const std::byte>, 2> weight_bytes(const Weight& weight);

// Rows that share a scale; 1 where every row has its own, or none.
int64_t rows_per_scale(const Weight& weight);

// Rows [first, first + count) as a weight of their own. Where rows share scales, `first` must be
// a multiple of rows_per_scale(). A weight without bytes stays one.
Weight rows_of(const Weight& weight, int64_t first, int64_t count);

// "bf16", "f32", "fp8_block", ...: the name of the format's folder.
std::string_view format_name(const Weight& weight);

// Unpacks rows [first, first + count) of a weight to [count, inputs]: the plain definition of every
// format, global scale included. The second form takes formats whose values are exact in bf16:
// bf16, FP8 and FP4 with power-of-two scales. Of these, scaled values below the smallest normal
// number are zeros, above the largest infinities.
void dequantize_rows(const Weight& weight, int64_t first, int64_t count, float* out);
void dequantize_rows(const Weight& weight, int64_t first, int64_t count, bf16* out);

}  // namespace tessera
