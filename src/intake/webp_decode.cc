#include "intake/webp_decode.h"

namespace tessera::intake {

DecodeResult decode_webp(std::span<const std::byte>, const DecodeOptions&) {
  return Refusal{Fault::unsupported, "not read yet"};
}

}  // namespace tessera::intake
