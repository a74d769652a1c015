// float [rows, inputs]: the stored bits as they are. Not exact in bf16, so f32 panels only.
#pragma once

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

void unpack_f32_f32_reference(const UnpackArgs& args) noexcept;
void unpack_f32_f32_avx2(const UnpackArgs& args) noexcept;
void unpack_f32_f32_avx512(const UnpackArgs& args) noexcept;

}  // namespace tessera::kernels
