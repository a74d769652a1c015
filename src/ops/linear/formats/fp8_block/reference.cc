#include "base/check.h"
#include "base/checked_math.h"
#include "ops/linear/formats/format.h"
#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/reference_unpack.h"
#include "ops/linear/formats/scaled_value.h"

namespace tessera::kernels {
namespace {

constexpr Variant<UnpackFn> kF32[] = {{IsaLevel::reference, unpack_fp8_block_f32_reference},
                                      {IsaLevel::avx2, unpack_fp8_block_f32_avx2},
                                      {IsaLevel::avx512, unpack_fp8_block_f32_avx512}};
constexpr Variant<UnpackFn> kPairs[] = {{IsaLevel::reference, unpack_fp8_block_pairs_reference},
                                        {IsaLevel::avx512, unpack_fp8_block_pairs_avx512}};

WeightLayout layout(const Weight& weight) {
  const WeightFp8Block& w = std::get<WeightFp8Block>(weight.format);
  TESSERA_CHECK(w.block >= 32 && w.block % 32 == 0);
  return {.codes = w.codes,
          .row_bytes = weight.inputs,
          .scales = w.scales,
          .scale_row_bytes = ceil_div(weight.inputs, w.block),
          .scale_rows = w.block,
          .block = w.block};
}

float value(const Weight& weight, int64_t row, int64_t input) {
  const WeightLayout l = layout(weight);
  return fp8_block_value(
      load_element<uint8_t>(l.codes + row * l.row_bytes, input),
      load_element<uint8_t>(l.scales + row / l.scale_rows * l.scale_row_bytes, input / l.block));
}

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    const std::byte code = args.codes[row * args.row_bytes + input];
    const std::byte scale = args.scales[row * args.scale_row_bytes + input / args.block];
    return fp8_block_value(static_cast<uint8_t>(code), static_cast<uint8_t>(scale));
  };
}

}  // namespace

float fp8_block_value(uint8_t code, uint8_t scale) {
  return scaled_value(e4m3_to_float(code), scale);
}

void unpack_fp8_block_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, value_of(args));
}

void unpack_fp8_block_pairs_reference(const UnpackArgs& args) noexcept {
  fill_pair_panel(args, value_of(args));
}

const Format kFp8BlockFormat = {.name = "fp8_block",
                                .layout = layout,
                                .value = value,
                                .f32_panels = kF32,
                                .pair_panels = kPairs,
                                .fused_avx512 = fused_fp8_block_avx512};

}  // namespace tessera::kernels
