#include "image/patchify.h"

#include "base/check.h"

namespace tessera::image {

const PixelTable& signed_unit_table() {
  static const PixelTable table = [] {
    PixelTable made{};
    for (size_t u = 0; u < made.size(); ++u) {
      const float unit = static_cast<float>(u) / 255.0f;
      made[u] = to_bf16((unit - 0.5f) / 0.5f);
    }
    return made;
  }();
  return table;
}

Tensor patchify(const Image& canvas, int64_t patch, const PixelTable& table) {
  TESSERA_CHECK(patch >= 1 && canvas.width() >= 1 && canvas.width() % patch == 0 &&
                canvas.height() % patch == 0);
  const int64_t rows = canvas.height() / patch;
  const int64_t columns = canvas.width() / patch;
  const int64_t area = patch * patch;
  Tensor patches(DType::bf16, {rows * columns, Image::kChannels * area});
  bf16* out = patches.as<bf16>();
  for (int64_t y = 0; y < canvas.height(); ++y) {
    const uint8_t* line = canvas.row(y);
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t index = (y / patch) * columns + column;
      bf16* to = out + index * Image::kChannels * area + (y % patch) * patch;
      const uint8_t* from = line + column * patch * Image::kChannels;
      for (int64_t x = 0; x < patch; ++x) {
        to[x] = table[from[3 * x]];
        to[area + x] = table[from[3 * x + 1]];
        to[2 * area + x] = table[from[3 * x + 2]];
      }
    }
  }
  return patches;
}

}  // namespace tessera::image
