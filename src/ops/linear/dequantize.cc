#include <bit>

#include "base/check.h"
#include "base/cpu.h"
#include "ops/linear/formats/format.h"

namespace tessera {

void dequantize_rows(const Weight& weight, int64_t first, int64_t count, float* out) {
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= weight.outputs);
  const ScopedFlushSubnormals flush;
  const kernels::Format& format = kernels::format_of(weight);
  const float factor = format.factor == nullptr ? 1.0f : format.factor(weight);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t input = 0; input < weight.inputs; ++input) {
      const float value = format.value(weight, first + row, input);
      out[row * weight.inputs + input] = format.factor == nullptr ? value : value * factor;
    }
  }
}

void dequantize_rows(const Weight& weight, int64_t first, int64_t count, bf16* out) {
  const kernels::Format& format = kernels::format_of(weight);
  TESSERA_CHECK(!format.pair_panels.empty() && format.factor == nullptr &&
                format.block_scale == nullptr);
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= weight.outputs);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t input = 0; input < weight.inputs; ++input) {
      const uint32_t bits = std::bit_cast<uint32_t>(format.value(weight, first + row, input));
      out[row * weight.inputs + input] = {static_cast<uint16_t>(bits >> 16)};
    }
  }
}

}  // namespace tessera
