// What the samples of a TIFF picture mean: Pillow's mode and the way of a row to the row writer.
// The combinations are those of Pillow 13's table OPEN_INFO (TiffImagePlugin.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "intake/fault.h"
#include "intake/pixel_rows.h"
#include "intake/tiff_header.h"

namespace tessera::intake {

// How samples are stored in a row as libtiff returns it: words in the machine's byte order, bits
// from the highest on.
enum class TiffPixels {
  packed,  // one sample of 1, 2, 4 or 8 bits
  bytes,   // samples of 8 bits
  words,   // samples of 16 bits
  grey12,
  int16,  // from here on: grey, clipped to 0..255 whatever the policy (16-bit rules do not fit)
  int32,
  uint32,
  real32,
};

struct TiffLayout {
  std::string_view pillow_mode;
  RowFormat format = RowFormat::grey8;  // of a converted row
  TiffPixels pixels = TiffPixels::packed;
  int64_t used_samples = 1;  // of each pixel, the first ones
  bool is_inverted = false;  // packed: white is zero
  bool is_premultiplied = false;
  bool has_alpha_index = false;  // palette entry and alpha: rgba8
  bool is_ycbcr = false;         // converted here, as Pillow does
};

// Refuses what Pillow does not read, and what it reads with the bytes in the wrong order
// (unsupported; the detail says what was found).
std::variant<TiffLayout, Refusal> choose_tiff_layout(const TiffHeader& header);

}  // namespace tessera::intake
