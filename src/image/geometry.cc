#include "image/geometry.h"

#include <cstring>

#include "base/check.h"

namespace tessera::image {

Size contain_size(Size source, Size box) {
  const double source_width = static_cast<double>(source.width);
  const double source_height = static_cast<double>(source.height);
  const double box_width = static_cast<double>(box.width);
  const double box_height = static_cast<double>(box.height);
  const double source_ratio = source_width / source_height;
  const double box_ratio = box_width / box_height;
  if (source_ratio > box_ratio) {
    return {box.width, round_half_even((source_height / source_width) * box_width)};
  }
  if (source_ratio < box_ratio) {
    return {round_half_even((source_width / source_height) * box_height), box.height};
  }
  return box;
}

Box centred_box(Size content, Size canvas) {
  Box box{.x = 0, .y = 0, .width = content.width, .height = content.height};
  if (content.width != canvas.width) {
    box.x = round_half_even(static_cast<double>(canvas.width - content.width) * 0.5);
  } else {
    box.y = round_half_even(static_cast<double>(canvas.height - content.height) * 0.5);
  }
  return box;
}

void paste(const Image& content, int64_t x, int64_t y, Image& canvas) {
  TESSERA_CHECK(x >= 0 && y >= 0 && x + content.width() <= canvas.width() &&
                y + content.height() <= canvas.height());
  for (int64_t line = 0; line < content.height(); ++line) {
    std::memcpy(canvas.row(y + line) + x * Image::kChannels, content.row(line),
                static_cast<size_t>(content.row_bytes()));
  }
}

}  // namespace tessera::image
