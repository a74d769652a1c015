#include "intake/png_encode.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "intake/decode.h"

namespace tessera::intake {
namespace {

TEST(PngEncode, DecodesToTheSamePixels) {
  for (const image::Size size : {image::Size{1, 1}, {3, 2}, {257, 31}, {1, 500}}) {
    image::Image picture(size);
    for (int64_t i = 0; i < picture.row_bytes() * size.height; ++i) {
      picture.pixels()[i] = static_cast<uint8_t>((i * 37) ^ (i / 11));
    }
    const DecodedImage decoded = decode_image(encode_png(picture), "encoded");
    EXPECT_EQ(decoded.format, "PNG");
    EXPECT_EQ(decoded.mode, "RGB");
    ASSERT_EQ(decoded.rgb.size(), size);
    EXPECT_TRUE(std::ranges::equal(decoded.rgb.bytes(), picture.bytes()));
  }
}

}  // namespace
}  // namespace tessera::intake
