// intake/decode.h, JPEG.
#include "fuzz/picture_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::fuzz::check_picture(tessera::intake::ContentKind::jpeg, data, size);
  return 0;
}
