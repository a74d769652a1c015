// Pictures from outside: bytes to RGB pixels, as Pillow's Image.open(f).convert("RGB") gives them
// (DeepSeek-V4.1 specification section 2.1). First frame only; EXIF orientation, gamma and colour
// profiles are not applied; alpha is dropped without compositing. Never half a picture: a file that
// ends early is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "image/image.h"
#include "intake/fault.h"

namespace tessera::intake {

// Checked against the header, before any pixel is decoded or memory for pixels is taken.
struct DecodeLimits {
  int64_t max_bytes = int64_t{256} << 20;        // encoded
  int64_t max_side = 1'000'000;                  // pixels
  int64_t max_pixels = 2 * int64_t{89'478'485};  // Pillow's decompression bomb limit
  int64_t max_decoder_bytes = int64_t{2} << 30;  // working memory of the JPEG decoder
};

struct DecodedImage {
  image::Image rgb;
  std::string_view format;  // Pillow's names: "JPEG", "MPO", "PNG"
  std::string_view mode;    // Pillow's mode before the conversion: "RGB", "L", "P", "I;16", ...
};

using DecodeResult = std::variant<DecodedImage, Refusal>;

// Throws only Error{out_of_memory}.
DecodeResult try_decode_image(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

// The same; a refusal becomes to_error(name, refusal). `name` stands at the start of the message: a
// file name or the place in a request.
DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name,
                          const DecodeLimits& limits = {});

// All bytes of a regular file. Throws Error{bad_file} when it is missing or unreadable,
// Error{bad_request} when it is larger than limits.max_bytes, Error{io} when reading fails.
std::vector<std::byte> read_image_file(const std::string& path, const DecodeLimits& limits = {});

}  // namespace tessera::intake
