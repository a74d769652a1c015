// Pictures from outside: bytes to RGB pixels by the rules of a policy. Under `reference` they equal
// Pillow's Image.open(f).convert("RGB") (DeepSeek-V4.1 specification section 2.1). First frame
// only; gamma and colour profiles are not applied. Never half a picture: a file that ends early is
// refused. docs/image-intake.md has the rule of each case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "image/image.h"
#include "image/policy.h"
#include "intake/deadline.h"
#include "intake/fault.h"

namespace tessera::intake {

// Checked against the header, before any pixel is decoded or memory for pixels is taken.
struct DecodeLimits {
  int64_t max_bytes = int64_t{256} << 20;        // encoded
  int64_t max_side = 1'000'000;                  // pixels
  int64_t max_pixels = 2 * int64_t{89'478'485};  // Pillow's decompression bomb limit
  int64_t max_decoder_bytes = int64_t{2} << 30;  // working memory of a decoder library
};

struct DecodeOptions {
  DecodeLimits limits = {};
  image::Policy policy = image::reference_policy();
  Deadline deadline = {};
};

struct DecodedImage {
  image::Image rgb;
  std::string_view format;  // Pillow's names: "JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", ...
  std::string_view mode;    // Pillow's mode before the conversion: "RGB", "L", "P", "I;16", ...
  // What policies differ about.
  bool has_transparency = false;  // some pixel is not opaque
  bool has_sixteen_bits = false;  // per sample
  int exif_orientation = 1;       // 1 to 8; 1: upright
};

using DecodeResult = std::variant<DecodedImage, Refusal>;

// Throws only Error{out_of_memory}.
DecodeResult try_decode_image(std::span<const std::byte> bytes, const DecodeOptions& options = {});

// The same; a refusal becomes to_error(name, refusal). `name` stands at the start of the message: a
// file name or the place in a request.
DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name,
                          const DecodeOptions& options = {});

// All bytes of a regular file; with a `root`, of a path below that folder: no link and no ".."
// leads out of it. Throws Error{bad_file} when it is missing or unreadable, Error{bad_request} when
// it is larger than limits.max_bytes, Error{io} when reading fails.
std::vector<std::byte> read_image_file(const std::string& path, const DecodeLimits& limits = {},
                                       const std::string& root = {});

}  // namespace tessera::intake
