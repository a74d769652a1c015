#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {
namespace {

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_bf16_f32_reference},
                                      {IsaLevel::avx2, unpack_bf16_f32_avx2},
                                      {IsaLevel::avx512, unpack_bf16_f32_avx512}};
constexpr Variant<UnpackFn> kPairs[] = {{IsaLevel::reference, unpack_bf16_pairs_reference},
                                        {IsaLevel::avx512, unpack_bf16_pairs_avx512}};

WeightLayout layout(const Weight& weight) {
  return {.codes = std::get<WeightBf16>(weight.format).codes, .row_bytes = weight.inputs * 2};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return to_float(load_element<bf16>(l.codes + row * l.row_bytes, input));
}

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    return to_float(load_element<bf16>(args.codes + row * args.row_bytes, input));
  };
}

}  // namespace

void unpack_bf16_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, value_of(args));
}

void unpack_bf16_pairs_reference(const UnpackArgs& args) noexcept {
  fill_pair_panel(args, value_of(args));
}

const Format kBf16Format = {
    .name = "bf16", .layout = layout, .value = value, .f32_panels = kF32, .pair_panels = kPairs};

}  // namespace tessera::kernels
