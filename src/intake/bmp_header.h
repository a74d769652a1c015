// Headers and palette of a BMP file, read before any pixel. Sources: Microsoft's BITMAPCOREHEADER
// to BITMAPV5HEADER; what they leave open is decided as Pillow 13 does (BmpImagePlugin.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "image/image.h"
#include "intake/decode.h"

namespace tessera::intake {

enum class BmpPixels {
  indexed,  // 1, 4 or 8 bits: entries of the palette, the leftmost pixel in the highest bits
  rle,      // the same as runs (bmp_rle.h)
  bits_555,
  bits_565,
  bytes,  // BmpHeader::bytes says where each colour is
};

// Places of the colours within a pixel of 24 or 32 bits.
struct BmpBytes {
  int r;
  int g;
  int b;
  int alpha;  // -1: none
};

struct BmpHeader {
  int64_t width = 0;
  int64_t height = 0;
  bool is_top_down = false;
  int64_t bits = 0;  // per pixel
  BmpPixels pixels = BmpPixels::indexed;
  BmpBytes bytes{};
  bool is_rle4 = false;
  int64_t data_offset = 0;                // of the first row or run, from the start of the file
  std::string_view pillow_mode;           // "1", "L", "P", "RGB" or "RGBA"
  std::array<image::Rgb, 256> palette{};  // entries the file does not have are black

  int64_t row_bytes() const { return (width * bits + 7) / 8; }
  int64_t stride_bytes() const { return (width * bits + 31) / 32 * 4; }
};

// `bytes` start with "BM". Refuses: sizes beyond the limits (too_large); a header or, unless the
// pixels are runs, rows that the file is too short for (truncated); bit counts, masks and
// compressions that are not read (unsupported); headers that contradict themselves (corrupt).
std::variant<BmpHeader, Refusal> read_bmp_header(std::span<const std::byte> bytes,
                                                 const DecodeLimits& limits);

}  // namespace tessera::intake
