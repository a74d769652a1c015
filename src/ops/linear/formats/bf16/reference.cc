#include <cstring>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {
namespace {

auto value_of(const UnpackArgs& args) {
  return [&args](int64_t row, int64_t input) {
    bf16 stored;
    std::memcpy(&stored, args.codes + row * args.row_bytes + input * 2, sizeof(stored));
    return to_float(stored);
  };
}

}  // namespace

void unpack_bf16_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, value_of(args));
}

void unpack_bf16_pairs_reference(const UnpackArgs& args) noexcept {
  fill_pair_panel(args, value_of(args));
}

}  // namespace tessera::kernels
