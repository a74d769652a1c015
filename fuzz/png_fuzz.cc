// intake/decode.h, PNG: any bytes are refused or give a picture of the size the limits allow.
#include <algorithm>
#include <vector>

#include "fuzz/target.h"
#include "intake/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::intake::DecodeLimits limits;
  limits.max_pixels = int64_t{1} << 18;  // keeps one input in milliseconds
  limits.max_decoder_bytes = int64_t{1} << 25;
  const auto decoded = tessera::fuzz::parse_or_refuse([&] {
    return tessera::intake::decode_image(std::as_bytes(std::span(data, size)), "input",
                                         {.limits = limits});
  });
  if (decoded.has_value()) {
    const tessera::image::Image& rgb = decoded->rgb;
    TESSERA_CHECK(rgb.width() * rgb.height() <= limits.max_pixels);
    // A file that was accepted must not depend on what follows it.
    std::vector<uint8_t> longer(data, data + size);
    longer.push_back(0);
    const auto again = tessera::intake::decode_image(std::as_bytes(std::span(longer)), "longer");
    TESSERA_CHECK(std::ranges::equal(again.rgb.bytes(), rgb.bytes()));
  }
  return 0;
}
