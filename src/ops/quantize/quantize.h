// Group quantisation of activations and caches: every group of a row shares one scale.
// Source: deepseek_v41 specification 12.3 and 12.4 (reference functions act_quant, fp4_act_quant).
//
//   e4m3_e8m0_32   amax = max(max|x|, 1e-4);         s = 2^ceil(log2(amax * f32(1/448)))
//   e2m1_e8m0_32   amax = max(max|x|, 6 * 2^-126);   s = 2^ceil(log2(amax * f32(1/6)))
//   e2m1_e4m3_16   amax = max(max|x|, 6 * 2^-9);     s = e4m3(amax / 6)
//   code = round(clamp(x / s)),  dequantised = code * s: exact in bf16
//
// ceil(log2) is taken on the bits of the float. x / s is a true division.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

enum class GroupFormat { e4m3_e8m0_32, e2m1_e8m0_32, e2m1_e4m3_16 };

int64_t group_size(GroupFormat format);
// Bytes of the codes and of the scales of one row of `width` values (a multiple of the group size).
int64_t group_code_bytes(GroupFormat format, int64_t width);
int64_t group_scale_bytes(GroupFormat format, int64_t width);

// y = dequantised x, row by row. x, y bf16 [rows, width]; y may be x. For e4m3_e8m0_32 the width
// may be any number: the last group of a row is then shorter.
void quantize_dequantize(ExecContext& ctx, GroupFormat format, const bf16* x, int64_t rows,
                         int64_t width, bf16* y);

// One row: codes (two E2M1 per byte, the low nibble is the even element) and scales. noexcept
// kernels for operations that pack and unpack inside their own loops.
void pack_row(GroupFormat format, const bf16* x, int64_t width, std::byte* codes,
              std::byte* scales) noexcept;
void unpack_row(GroupFormat format, const std::byte* codes, const std::byte* scales, int64_t width,
                bf16* y) noexcept;
void unpack_row(GroupFormat format, const std::byte* codes, const std::byte* scales, int64_t width,
                float* y) noexcept;

// The rule of the quantised linears (ops/linear): e4m3_e8m0_32.
inline void quantize_dequantize_e4m3(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width,
                                     bf16* y) {
  quantize_dequantize(ctx, GroupFormat::e4m3_e8m0_32, x, rows, width, y);
}

// The rule of NVFP4's linears, calibrated by `input_scale` (ModelOpt's NVFP4 quantiser): for groups
// of 16,
//   s = e4m3(amax / (6 * input_scale));   y = e2m1(x / (s * input_scale)) * s
// with fp32 arithmetic. y is without the input scale and exact in bf16: the caller multiplies its
// sums. A group whose s is 0 becomes zeros; NaN stays NaN. width is a multiple of 16; y may be x.
void quantize_e2m1_calibrated(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width,
                              float input_scale, bf16* y);

}  // namespace tessera
