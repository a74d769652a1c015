#include "intake/gif_decode.h"

namespace tessera::intake {

DecodeResult decode_gif(std::span<const std::byte>, const DecodeOptions&) {
  return Refusal{Fault::unsupported, "not read yet"};
}

}  // namespace tessera::intake
