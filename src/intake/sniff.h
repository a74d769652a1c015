// What bytes are, judged by the bytes alone: names and declared MIME types are not trusted.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tessera::intake {

enum class ContentKind {
  jpeg,
  png,
  webp,
  gif,
  bmp,
  tiff,
  pnm,            // PBM, PGM and PPM, plain and binary
  other_picture,  // a picture format that has no decoder here
  no_picture,
};

struct Sniffed {
  ContentKind kind;
  std::string_view name;  // "JPEG", "PNG", "WebP", "an HTML page", "nothing known"
};

// Looks at the first bytes (and, for TGA, which has no signature, at its header fields and footer).
// Never fails; empty input is `no_picture`.
Sniffed sniff(std::span<const std::byte> bytes);

}  // namespace tessera::intake
