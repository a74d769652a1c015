#include "image/orient.h"

#include <cstring>
#include <utility>

namespace tessera::image {

// Pixel (x, y) of the stored picture is shown at (x or mirrored x, y or mirrored y), then the axes
// are exchanged. Written in the order of the result's rows.
Image orient(Image picture, int orientation) {
  if (orientation < 2 || orientation > 8) {
    return picture;
  }
  const bool is_transposed = orientation >= 5;
  const bool is_mirrored =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool is_flipped =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const Size from = picture.size();
  Image out(is_transposed ? Size{from.height, from.width} : from);
  for (int64_t y = 0; y < out.height(); ++y) {
    uint8_t* to = out.row(y);
    for (int64_t x = 0; x < out.width(); ++x, to += Image::kChannels) {
      const int64_t column = is_transposed ? y : x;
      const int64_t line = is_transposed ? x : y;
      const uint8_t* source = picture.row(is_flipped ? from.height - 1 - line : line) +
                              Image::kChannels * (is_mirrored ? from.width - 1 - column : column);
      std::memcpy(to, source, Image::kChannels);
    }
  }
  return out;
}

}  // namespace tessera::image
