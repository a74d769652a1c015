// What the targets of the picture decoders check.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "fuzz/target.h"
#include "intake/decode.h"
#include "intake/sniff.h"

namespace tessera::fuzz {

// Bytes of format `kind` are refused, or give a picture of the size that the limits allow, which
// does not depend on what follows the file (`next`). Under a policy that drops and one that blends.
inline void check_picture(intake::ContentKind kind, const uint8_t* data, size_t size,
                          uint8_t next = 0) {
  const std::span<const uint8_t> input(data, size);
  if (intake::sniff(std::as_bytes(input)).kind != kind) {
    return;  // other formats have targets of their own
  }
  intake::DecodeOptions options;
  options.limits.max_pixels = int64_t{1} << 18;  // keeps one input in milliseconds
  options.limits.max_decoder_bytes = int64_t{1} << 25;
  for (const char* policy : {"reference", "recipe"}) {
    options.policy = image::find_policy(policy);
    const auto decode = [&options](std::span<const uint8_t> bytes) {
      return intake::decode_image(std::as_bytes(bytes), "input", options);
    };
    const auto decoded = parse_or_refuse([&] { return decode(input); });
    if (decoded.has_value()) {
      const image::Image& rgb = decoded->rgb;
      TESSERA_CHECK(rgb.width() * rgb.height() <= options.limits.max_pixels);
      std::vector<uint8_t> longer(data, data + size);
      longer.push_back(next);
      TESSERA_CHECK(std::ranges::equal(decode(longer).rgb.bytes(), rgb.bytes()));
    }
  }
}

}  // namespace tessera::fuzz
