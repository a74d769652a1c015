// E2M1 [rows, inputs/2] with one E4M3 scale per row and 16 inputs and a global scale: the panels
// hold e2m1(code) * e4m3(scale), which has six significant bits and is exact in bf16; the global
// scale multiplies the finished sums. checkpoint_v41 specification 9.
#pragma once

#include <cstdint>

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

// The definition, without the global scale. Code 8 is +0; NaN for the scales 0x7f and 0xff.
float nvfp4_value(uint8_t code, uint8_t scale);

void unpack_nvfp4_f32_reference(const UnpackArgs& args) noexcept;
void unpack_nvfp4_f32_avx2(const UnpackArgs& args) noexcept;
void unpack_nvfp4_f32_avx512(const UnpackArgs& args) noexcept;
void unpack_nvfp4_pairs_reference(const UnpackArgs& args) noexcept;
void unpack_nvfp4_pairs_avx512(const UnpackArgs& args) noexcept;

bool fused_nvfp4_avx512(const FusedArgs& args) noexcept;

}  // namespace tessera::kernels
