// The inner kernels of linear: panels of inputs times panels of weights, and the way out.
//
// Summation order of linear.h: one accumulator per output, pairs ascending, odd input first. The
// accumulators live in memory between calls, so K can be cut anywhere at an even input. Subnormals
// must be flushed on the calling thread (base/cpu.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

// acc[r, 16 p + o] += sum_k x[r, k] * w[p][k, o]
struct MultiplyArgs {
  // Packed: one panel [inputs][16 rows], of the kind of the weights' panels (formats/unpack.h).
  // Direct (x_stride > 0): float [rows, x_stride] as in memory, at most 8 rows, f32 panels only.
  const void* x;
  int64_t x_stride;
  int64_t x_input_stride;  // packed f32 panels: floats between inputs, 16 in a panel of its own
  int64_t rows;            // 1..16
  const std::byte* w;      // panels, 64-byte aligned
  int64_t w_panel_bytes;   // between panels
  int64_t panels;          // >= 1
  int64_t inputs;          // even
  float* acc;              // [rows, acc_stride], 64-byte aligned; acc_stride a multiple of 16
  int64_t acc_stride;
  bool is_first;  // the accumulators start at +0 instead of continuing
};
using MultiplyFn = void (*)(const MultiplyArgs&) noexcept;

void multiply_f32_reference(const MultiplyArgs& args) noexcept;
void multiply_f32_avx2(const MultiplyArgs& args) noexcept;
void multiply_f32_avx512(const MultiplyArgs& args) noexcept;
// Packed x only; the inputs strictly ascending, any number of them (vision_attention's second
// product).
void multiply_ascending_f32_avx2(const MultiplyArgs& args) noexcept;
void multiply_ascending_f32_avx512(const MultiplyArgs& args) noexcept;
// Pair panels, packed x only.
void multiply_pairs_reference(const MultiplyArgs& args) noexcept;
void multiply_pairs_avx512(const MultiplyArgs& args) noexcept;

// acc[r, o] = fma(part[r, o], scale[o / 16], is_first ? +0 : acc[r, o]): the sums over one block of
// inputs join the sums of all.
struct FoldArgs {
  const float* part;   // [rows, acc_stride], 64-byte aligned like acc
  float* acc;          // [rows, acc_stride]
  int64_t acc_stride;  // a multiple of 16
  int64_t rows;
  int64_t panels;
  const float* scales;  // [panels]
  bool is_first;
};
using FoldFn = void (*)(const FoldArgs&) noexcept;

void fold_reference(const FoldArgs& args) noexcept;
void fold_avx2(const FoldArgs& args) noexcept;

// y[r, o] = round(acc[r, o] * factor + bias[o]), the product rounded too
struct StoreArgs {
  const float* acc;  // [rows, acc_stride]
  int64_t acc_stride;
  int64_t rows;
  int64_t outputs;
  float factor;
  const std::byte* bias;  // bf16 of any alignment, or nullptr
  void* y;                // [rows, y_stride], bf16 or float
  int64_t y_stride;
};
using StoreFn = void (*)(const StoreArgs&) noexcept;

void store_bf16_reference(const StoreArgs& args) noexcept;
void store_bf16_avx2(const StoreArgs& args) noexcept;
void store_bf16_avx512(const StoreArgs& args) noexcept;
void store_f32_reference(const StoreArgs& args) noexcept;

// True where vdpbf16ps does more work in a cycle than two fp32 multiply-adds (Zen 4: twice;
// Sapphire and Emerald Rapids: half). Needs AVX-512 BF16. Measured once, in some tens of
// microseconds; both ways give the same bits.
bool is_dot_faster();
// Time-stamp ticks of the same number of products by either instruction; the smallest of some runs.
struct DotTicks {
  uint64_t dot;
  uint64_t fma;
};
DotTicks measure_dot_avx512() noexcept;

}  // namespace tessera::kernels
