#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {
namespace {

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_f32_f32_reference},
                                      {IsaLevel::avx2, unpack_f32_f32_avx2},
                                      {IsaLevel::avx512, unpack_f32_f32_avx512}};

WeightLayout layout(const Weight& weight) {
  return {.codes = std::get<WeightF32>(weight.format).codes, .row_bytes = weight.inputs * 4};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return load_element<float>(l.codes + row * l.row_bytes, input);
}

}  // namespace

void unpack_f32_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, [&args](int64_t row, int64_t input) {
    return load_element<float>(args.codes + row * args.row_bytes, input);
  });
}

const Format kF32Format = {
    .name = "f32", .layout = layout, .value = value, .f32_panels = kF32, .pair_panels = {}};

}  // namespace tessera::kernels
