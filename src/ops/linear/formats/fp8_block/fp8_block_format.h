// E4M3 [rows, inputs] with one E8M0 scale per tile: value = e4m3(code) * 2^(scale-127).
// deepseek_v41 specification 12.1, 12.2. The 16 rows of a panel share their scales.
#pragma once

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

// The definition. NaN for the codes 0x7f and 0xff and for scale 255; -0 stays -0.
float fp8_block_value(uint8_t code, uint8_t scale);

void unpack_fp8_block_f32_reference(const UnpackArgs& args) noexcept;
void unpack_fp8_block_f32_avx2(const UnpackArgs& args) noexcept;
void unpack_fp8_block_f32_avx512(const UnpackArgs& args) noexcept;
void unpack_fp8_block_pairs_reference(const UnpackArgs& args) noexcept;
void unpack_fp8_block_pairs_avx512(const UnpackArgs& args) noexcept;

bool fused_fp8_block_avx512(const FusedArgs& args) noexcept;

}  // namespace tessera::kernels
