#include "intake/tiff_decode.h"

namespace tessera::intake {

DecodeResult decode_tiff(std::span<const std::byte>, const DecodeOptions&) {
  return Refusal{Fault::unsupported, "not read yet"};
}

}  // namespace tessera::intake
