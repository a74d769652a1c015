#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {

void unpack_f32_f32_avx512(const UnpackArgs& args) noexcept {
  constexpr int64_t kStep = 4;  // inputs in 16 bytes
  const PanelRowPointers rows = row_pointers(args, args.first * 4);
  float* panel = static_cast<float*>(args.panel);
  int64_t i = 0;
  for (; i + kStep <= args.count; i += kStep) {
    prefetch_ahead<kStep * 4 * 16>(args, i * 4 * 16);
    __m512i inputs[4];
    load_transposed_dwords(rows, i * 4, inputs);
    for (int j = 0; j < 4; ++j) {
      _mm512_store_si512(panel + (i + j) * kPanelRows, inputs[j]);
    }
  }
  if (i < args.count) {
    unpack_f32_f32_reference(rest_of(args, i, kF32PanelBytes));
  }
}

}  // namespace tessera::kernels
