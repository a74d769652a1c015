// E2M1 [rows, inputs/2] with one E8M0 scale per row and 32 inputs: value = e2m1(code) *
// 2^(scale-127); the low nibble is the even input. deepseek_v41 specification 12.1, 12.2.
#pragma once

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

// The definition. Code 8 is +0, as in the released reference's table. NaN for scale 255.
float mxfp4_value(uint8_t code, uint8_t scale);

void unpack_mxfp4_f32_reference(const UnpackArgs& args) noexcept;
void unpack_mxfp4_f32_avx2(const UnpackArgs& args) noexcept;
void unpack_mxfp4_f32_avx512(const UnpackArgs& args) noexcept;
void unpack_mxfp4_pairs_reference(const UnpackArgs& args) noexcept;
void unpack_mxfp4_pairs_avx512(const UnpackArgs& args) noexcept;

bool fused_mxfp4_avx512(const FusedArgs& args) noexcept;

}  // namespace tessera::kernels
