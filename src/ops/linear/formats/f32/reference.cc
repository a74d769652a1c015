#include <cstring>

#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/reference_unpack.h"

namespace tessera::kernels {

void unpack_f32_f32_reference(const UnpackArgs& args) noexcept {
  fill_f32_panel(args, [&args](int64_t row, int64_t input) {
    float stored;
    std::memcpy(&stored, args.codes + row * args.row_bytes + input * 4, sizeof(stored));
    return stored;
  });
}

}  // namespace tessera::kernels
