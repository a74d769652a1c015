#include "ops/linear/formats/f16/f16_format.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {
namespace {

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_f16_f32_reference},
                                      {IsaLevel::avx2, unpack_f16_f32_avx2}};

WeightLayout layout(const Weight& weight) {
  return {.codes = std::get<WeightF16>(weight.format).codes, .row_bytes = weight.inputs * 2};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return f16_to_float(load_element<uint16_t>(l.codes + row * l.row_bytes, input));
}

}  // namespace

void unpack_f16_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, [&args](int64_t row, int64_t input) {
    return f16_to_float(load_element<uint16_t>(args.codes + row * args.row_bytes, input));
  });
}

const Format kF16Format = {
    .name = "f16", .layout = layout, .value = value, .f32_panels = kF32, .pair_panels = {}};

}  // namespace tessera::kernels
