#include "base/check.h"
#include "base/checked_math.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/fp8_scaled/fp8_scaled_format.h"

namespace tessera::kernels {
namespace {

WeightLayout layout(const Weight& weight) {
  const WeightFp8Scaled& w = std::get<WeightFp8Scaled>(weight.format);
  TESSERA_CHECK(w.block >= 32 && w.block % 32 == 0);
  TESSERA_CHECK(w.scale_type == DType::f32 || w.scale_type == DType::bf16);
  return {.codes = w.codes,
          .row_bytes = weight.inputs,
          .scales = w.scales,
          .scale_row_bytes = ceil_div(weight.inputs, w.block) * dtype_bytes(w.scale_type),
          .scale_rows = w.block,
          .block = w.block};
}

float block_scale(const Weight& weight, int64_t row, int64_t block) {
  return fp8_scaled_scale(std::get<WeightFp8Scaled>(weight.format), weight.inputs, row, block);
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  const float code = e4m3_to_float(load_element<uint8_t>(l.codes + row * l.row_bytes, input));
  return code * block_scale(weight, row, input / l.block);
}

}  // namespace

float fp8_scaled_scale(const WeightFp8Scaled& weight, int64_t inputs, int64_t row,
                       int64_t block_index) {
  const int64_t at = row / weight.block * ceil_div(inputs, weight.block) + block_index;
  return weight.scale_type == DType::f32 ? load_element<float>(weight.scales, at)
                                         : to_float(load_element<bf16>(weight.scales, at));
}

const Format kFp8ScaledFormat = {.name = "fp8_scaled",
                                 .layout = layout,
                                 .value = value,
                                 .f32_panels = kFp8BlockFormat.f32_panels,
                                 .pair_panels = kFp8BlockFormat.pair_panels,
                                 .fused_avx512 = kFp8BlockFormat.fused_avx512,
                                 .block_scale = block_scale};

}  // namespace tessera::kernels
