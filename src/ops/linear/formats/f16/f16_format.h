// IEEE binary16 [rows, inputs]: the stored values, which are exact in float but not in bf16, so f32
// panels only. Subnormal numbers of binary16 are normal floats: they are kept.
#pragma once

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

void unpack_f16_f32_reference(const UnpackArgs& args) noexcept;
void unpack_f16_f32_avx2(const UnpackArgs& args) noexcept;

}  // namespace tessera::kernels
