#include "ops/linear/formats/format.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/reference_unpack.h"
#include "ops/linear/formats/scaled_value.h"

namespace tessera::kernels {
namespace {

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_mxfp4_f32_reference},
                                      {IsaLevel::avx2, unpack_mxfp4_f32_avx2},
                                      {IsaLevel::avx512, unpack_mxfp4_f32_avx512}};
constexpr Variant<UnpackFn> kPairs[] = {{IsaLevel::reference, unpack_mxfp4_pairs_reference},
                                        {IsaLevel::avx512, unpack_mxfp4_pairs_avx512}};

WeightLayout layout(const Weight& weight) {
  const WeightMxfp4& w = std::get<WeightMxfp4>(weight.format);
  return {.codes = w.codes,
          .row_bytes = weight.inputs / 2,
          .scales = w.scales,
          .scale_row_bytes = weight.inputs / 32,
          .input_unit = 32};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return mxfp4_value(nibble_of(l.codes + row * l.row_bytes, input),
                     load_element<uint8_t>(l.scales + row * l.scale_row_bytes, input / 32));
}

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    const std::byte scale = args.scales[row * args.scale_row_bytes + input / args.block];
    return mxfp4_value(nibble_of(args.codes + row * args.row_bytes, input),
                       static_cast<uint8_t>(scale));
  };
}

}  // namespace

float mxfp4_value(uint8_t code, uint8_t scale) {
  return scaled_value(code == 8 ? 0.0f : e2m1_to_float(code), scale);
}

void unpack_mxfp4_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, value_of(args));
}

void unpack_mxfp4_pairs_reference(const UnpackArgs& args) noexcept {
  fill_pair_panel(args, value_of(args));
}

const Format kMxfp4Format = {.name = "mxfp4",
                             .layout = layout,
                             .value = value,
                             .f32_panels = kF32,
                             .pair_panels = kPairs,
                             .fused_avx512 = fused_mxfp4_avx512};

}  // namespace tessera::kernels
