#include "intake/png_encode.h"

#include <png.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace tessera::intake {

std::vector<std::byte> encode_png(const image::Image& picture) {
  TESSERA_CHECK(picture.width() >= 1);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(picture.width());
  header.height = static_cast<png_uint_32>(picture.height());
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  std::vector<std::byte> out;
  // The first call only counts.
  if (png_image_write_to_memory(&header, nullptr, &size, 0, picture.pixels(), 0, nullptr) != 0) {
    out.resize(size);
    if (png_image_write_to_memory(&header, out.data(), &size, 0, picture.pixels(), 0, nullptr) !=
        0) {
      out.resize(size);
      return out;
    }
  }
  throw Error(ErrorCode::out_of_memory, "cannot encode a PNG picture; close other programs");
}

}  // namespace tessera::intake
