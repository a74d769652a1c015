// intake/decode.h, PBM, PGM and PPM.
#include "fuzz/picture_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A digit behind the file would go on with the last number.
  tessera::fuzz::check_picture(tessera::intake::ContentKind::pnm, data, size, '\n');
  return 0;
}
