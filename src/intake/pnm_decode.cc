#include "intake/pnm_decode.h"

namespace tessera::intake {

DecodeResult decode_pnm(std::span<const std::byte>, const DecodeOptions&) {
  return Refusal{Fault::unsupported, "not read yet"};
}

}  // namespace tessera::intake
