// bf16 [rows, inputs]: the stored bits as they are.
#pragma once

#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

void unpack_bf16_f32_reference(const UnpackArgs& args) noexcept;
void unpack_bf16_f32_avx2(const UnpackArgs& args) noexcept;
void unpack_bf16_f32_avx512(const UnpackArgs& args) noexcept;
void unpack_bf16_pairs_reference(const UnpackArgs& args) noexcept;
void unpack_bf16_pairs_avx512(const UnpackArgs& args) noexcept;

}  // namespace tessera::kernels
