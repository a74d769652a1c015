// The structure of a PNG file, read before libpng sees it: sizes for the limits, and whether the
// file is complete. PNG specification (third edition), sections 5 and 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "intake/decode.h"

namespace tessera::intake {

constexpr size_t kPngSignatureBytes = 8;
constexpr size_t kPngChunkOverhead = 12;  // length, type, checksum

uint32_t png_number(std::span<const std::byte> bytes, size_t at);  // 4 bytes, big-endian

struct PngHeader {
  int64_t width = 0;
  int64_t height = 0;
  int bit_depth = 0;    // 1, 2, 4, 8 or 16
  int colour_type = 0;  // 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  bool is_interlaced = false;
  int exif_orientation = 1;  // of its eXIf chunk
};

// `bytes` start with the PNG signature. Refuses: a header that contradicts itself (corrupt), a
// picture beyond the limits (too_large), a file that ends before IEND (truncated), one without
// image data (corrupt), and text or profile chunks that inflate to more than 1 MiB each or 64 MiB
// together, as Pillow does (corrupt). Checksums are left to libpng.
std::variant<PngHeader, Refusal> scan_png(std::span<const std::byte> bytes,
                                          const DecodeLimits& limits);

}  // namespace tessera::intake
