// Rounds matrices to a stored format: the other direction of ops/linear's formats.
//
//   bf16, f16, f32  each value rounded to nearest, ties to even
//   fp8_e8m0        per tile: s = 2^ceil(log2(amax / 448)), code = e4m3(v / s)
//   fp8_f32         per tile: s = amax / 448,               code = e4m3(v / s)
//   mxfp4           per row and 32 inputs: s = 2^ceil(log2(amax / 6)), code = e2m1(v / s)
//   nvfp4           global = amax of the matrix / (6 * 448);
//                   per row and 16 inputs: s = e4m3(amax / (6 * global)),
//                   code = e2m1(v / (s * global))
//
// No rule clips: the largest value of a group stays within the codes. Zeros get the smallest scale
// that is no zero. Sources: the reference's act_quant and fp4_act_quant (deepseek_v41 specification
// 12.3) for the powers of two; ModelOpt's NVFP4QTensor for NVFP4.
#pragma once

#include <cstdint>
#include <optional>

#include "models/stored_format.h"
#include "ops/linear/linear.h"

namespace tessera {

// Bytes of the weight and of its scales [rows, ...] in a format; no scales: 0.
int64_t encoded_code_bytes(const MatrixFormat& format, int64_t rows, int64_t inputs);
int64_t encoded_scale_bytes(const MatrixFormat& format, int64_t rows, int64_t inputs);

// The global scale of NVFP4 for a matrix whose largest magnitude is `amax`; 1 for zeros.
float nvfp4_global_scale(float amax);

// values [rows, inputs] to codes and scales. For FP8 `rows` starts at a tile and holds whole tiles,
// or the rest of the matrix; the number of inputs fits the format (linear.h). NaN and infinite
// values throw Error{bad_file}. `global` is for NVFP4.
void encode_rows(const MatrixFormat& format, const float* values, int64_t rows, int64_t inputs,
                 float global, std::byte* codes, std::byte* scales);

// MXFP4 to NVFP4 without loss: the codes stay, 2^k becomes two E4M3 scales 2^(k+G), and the global
// scale is 2^-G. Possible where the scales of all groups that are not zeros lie within a factor of
// 2^17. checkpoint_v41 specification 9, 11.
struct Nvfp4Cast {
  int exponent = 0;  // G

  float global() const;
  // One E8M0 scale as E4M3; zero groups may have any scale and get one in range.
  uint8_t scale(uint8_t e8m0) const;
};
std::optional<Nvfp4Cast> nvfp4_cast(const Weight& mxfp4);

}  // namespace tessera
