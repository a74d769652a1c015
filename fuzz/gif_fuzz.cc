// intake/decode.h, GIF: any bytes are refused or give a picture of the size the limits allow.
#include <algorithm>
#include <vector>

#include "fuzz/target.h"
#include "intake/decode.h"
#include "intake/sniff.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (tessera::intake::sniff(std::as_bytes(std::span(data, size))).kind !=
      tessera::intake::ContentKind::gif) {
    return 0;  // other formats have targets of their own
  }
  tessera::intake::DecodeOptions options;
  options.limits.max_pixels = int64_t{1} << 18;  // keeps one input in milliseconds
  options.limits.max_decoder_bytes = int64_t{1} << 25;
  for (const char* policy : {"reference", "recipe"}) {
    options.policy = tessera::image::find_policy(policy);
    const auto decode = [&options](std::span<const uint8_t> input) {
      return tessera::intake::decode_image(std::as_bytes(input), "input", options);
    };
    const auto decoded =
        tessera::fuzz::parse_or_refuse([&] { return decode(std::span(data, size)); });
    if (decoded.has_value()) {
      const tessera::image::Image& rgb = decoded->rgb;
      TESSERA_CHECK(rgb.width() * rgb.height() <= options.limits.max_pixels);
      // A file that was accepted must not depend on what follows it.
      std::vector<uint8_t> longer(data, data + size);
      longer.push_back(0);
      TESSERA_CHECK(std::ranges::equal(decode(longer).rgb.bytes(), rgb.bytes()));
    }
  }
  return 0;
}
