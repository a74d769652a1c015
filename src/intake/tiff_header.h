// The first directory of a TIFF file, read and checked before libtiff sees it: libtiff is only
// given files whose codec, sizes and tag data are within bounds. Source: TIFF 6.0, sections 2 to
// 15; what it leaves open is decided as Pillow 13 does (TiffImagePlugin.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "intake/decode.h"

namespace tessera::intake {

enum class TiffCompression : uint32_t {
  none = 1,
  ccitt_rle = 2,
  ccitt_group3 = 3,
  ccitt_group4 = 4,
  lzw = 5,
  jpeg = 7,
  adobe_deflate = 8,
  packbits = 32773,
  deflate = 32946,
};

// Values of PhotometricInterpretation that are read.
enum class TiffColour : uint32_t {
  white_is_zero = 0,
  black_is_zero = 1,
  rgb = 2,
  palette = 3,
  cmyk = 5,
  ycbcr = 6,
};

enum class TiffSample : uint32_t { unsigned_integer = 1, signed_integer = 2, real = 3 };

struct TiffHeader {
  bool is_big_endian = false;
  int64_t width = 0;
  int64_t height = 0;
  int orientation = 1;  // 1 to 8
  TiffCompression compression = TiffCompression::none;
  TiffColour colour = TiffColour::white_is_zero;
  TiffSample sample = TiffSample::unsigned_integer;
  bool is_lsb_first = false;    // FillOrder 2
  bool is_planar = false;       // each sample has its own strips or tiles
  int64_t bits = 1;             // per sample, the same for all
  int64_t samples = 1;          // per pixel, as stored
  std::vector<uint32_t> extra;  // ExtraSamples: 0 unspecified, 1 associated, 2 unassociated alpha
  std::vector<uint32_t> colour_map;  // all reds, then greens, then blues
  bool is_subsampled = false;        // YCbCr, the chroma
  bool is_tiled = false;
  int64_t block_width = 0;   // of a tile; width of the picture for strips
  int64_t block_height = 0;  // of a tile or strip, at most the picture's height for strips

  int64_t blocks_across() const { return (width + block_width - 1) / block_width; }
  int64_t blocks_down() const { return (height + block_height - 1) / block_height; }
  int64_t planes() const { return is_planar ? samples : 1; }
  // Pillow leaves out the last planes where all extra samples are unspecified; they may be empty.
  int64_t ignored_planes() const;
  // Of one plane: a row of a block, all rows of a block.
  int64_t block_row_bytes() const {
    return (block_width * bits * (is_planar ? 1 : samples) + 7) / 8;
  }
  int64_t block_bytes() const { return block_row_bytes() * block_height; }
  // Whether rows can be read one by one. Not those of PackBits: its runs may cross rows.
  bool reads_rows() const {
    return !is_tiled && !is_planar && compression != TiffCompression::packbits;
  }
};

// Refuses: codecs and colours that are not read (unsupported, by name); sizes, tiles and decoder
// memory beyond the limits (too_large); a directory, strips or tiles that the file is too short for
// (truncated); directories that contradict themselves (corrupt).
std::variant<TiffHeader, Refusal> read_tiff_header(std::span<const std::byte> bytes,
                                                   const DecodeLimits& limits);

}  // namespace tessera::intake
