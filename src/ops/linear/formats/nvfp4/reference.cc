#include "base/float_types.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/nvfp4/nvfp4_format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGroup = 16;  // inputs per scale

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_nvfp4_f32_reference},
                                      {IsaLevel::avx2, unpack_nvfp4_f32_avx2},
                                      {IsaLevel::avx512, unpack_nvfp4_f32_avx512}};
constexpr Variant<UnpackFn> kPairs[] = {{IsaLevel::reference, unpack_nvfp4_pairs_reference},
                                        {IsaLevel::avx512, unpack_nvfp4_pairs_avx512}};

WeightLayout layout(const Weight& weight) {
  const WeightNvfp4& w = std::get<WeightNvfp4>(weight.format);
  return {.codes = w.codes,
          .row_bytes = weight.inputs / 2,
          .scales = w.scales,
          .scale_row_bytes = weight.inputs / kGroup,
          .block = kGroup,
          .input_unit = kGroup};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return nvfp4_value(nibble_of(l.codes + row * l.row_bytes, input),
                     load_element<uint8_t>(l.scales + row * l.scale_row_bytes, input / kGroup));
}

float factor(const Weight& weight) { return std::get<WeightNvfp4>(weight.format).global; }

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    const std::byte scale = args.scales[row * args.scale_row_bytes + input / kGroup];
    return nvfp4_value(nibble_of(args.codes + row * args.row_bytes, input),
                       static_cast<uint8_t>(scale));
  };
}

}  // namespace

float nvfp4_value(uint8_t code, uint8_t scale) {
  return (code == 8 ? 0.0f : e2m1_to_float(code)) * e4m3_to_float(scale);
}

void unpack_nvfp4_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, value_of(args));
}

void unpack_nvfp4_pairs_reference(const UnpackArgs& args) noexcept {
  fill_pair_panel(args, value_of(args));
}

const Format kNvfp4Format = {.name = "nvfp4",
                             .layout = layout,
                             .value = value,
                             .f32_panels = kF32,
                             .pair_panels = kPairs,
                             .fused_avx512 = fused_nvfp4_avx512,
                             .factor = factor};

}  // namespace tessera::kernels
