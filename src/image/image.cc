#include "image/image.h"

#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::image {

void check_size(Size size) {
  if (size.width < 1 || size.height < 1 || size.width > kMaxSide || size.height > kMaxSide ||
      size.width * size.height > kMaxPixels) {
    throw Error(
        ErrorCode::bad_request,
        str_cat("a picture of ", size.width, " x ", size.height, " pixels: sides must be 1 to ",
                kMaxSide, " and their product at most ", kMaxPixels, "; use another size"));
  }
}

namespace {

int64_t checked_bytes(Size size) {
  check_size(size);
  return size.width * size.height * Image::kChannels;
}

}  // namespace

Image::Image(Size size) : buffer_(checked_bytes(size)), size_(size) {}

Image::Image(Size size, Rgb fill) : Image(size) {
  uint8_t* first = row(0);
  for (int64_t x = 0; x < width(); ++x) {
    first[3 * x] = fill.r;
    first[3 * x + 1] = fill.g;
    first[3 * x + 2] = fill.b;
  }
  for (int64_t y = 1; y < height(); ++y) {
    std::memcpy(row(y), first, static_cast<size_t>(row_bytes()));
  }
}

Image Image::copy() const {
  if (size_ == Size{}) {
    return {};
  }
  Image out(size_);
  std::memcpy(out.pixels(), pixels(), bytes().size());
  return out;
}

}  // namespace tessera::image
