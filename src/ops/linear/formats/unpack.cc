#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

UnpackArgs rest_of(const UnpackArgs& args, int64_t done, int64_t panel_bytes_per_input) {
  UnpackArgs rest = args;
  rest.first += done;
  rest.count -= done;
  rest.panel = static_cast<std::byte*>(args.panel) + done * panel_bytes_per_input;
  rest.prefetch = nullptr;
  return rest;
}

}  // namespace tessera::kernels
