#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/reference_unpack.h"
#include "ops/linear/formats/scaled_value.h"

namespace tessera::kernels {
namespace {

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

}  // namespace tessera::kernels
