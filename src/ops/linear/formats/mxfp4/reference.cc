#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/formats/reference_unpack.h"
#include "ops/linear/formats/scaled_value.h"

namespace tessera::kernels {
namespace {

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    const uint8_t both = static_cast<uint8_t>(args.codes[row * args.row_bytes + input / 2]);
    const uint8_t code = static_cast<uint8_t>((input & 1) != 0 ? both >> 4 : both & 0xf);
    const std::byte scale = args.scales[row * args.scale_row_bytes + input / args.block];
    return mxfp4_value(code, static_cast<uint8_t>(scale));
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

}  // namespace tessera::kernels
