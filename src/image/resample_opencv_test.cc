// OpenCV's resizers, bit for bit. Golden vectors: tests/golden/image/README.md.
#include "image/resample_opencv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "image/resample.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::image {
namespace {

Image from_tensor(const TensorView& view) {
  Image out({view.shape[1], view.shape[0]});
  std::memcpy(out.pixels(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

// R = 3x + y, G = xy, B = x*x + 5y, modulo 256.
Image drawing(Size size) {
  Image out(size);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      uint8_t* pixel = out.row(y) + x * Image::kChannels;
      pixel[0] = static_cast<uint8_t>(3 * x + y);
      pixel[1] = static_cast<uint8_t>(x * y);
      pixel[2] = static_cast<uint8_t>(x * x + 5 * y);
    }
  }
  return out;
}

TEST(ResampleOpencv, EqualsEveryGoldenVector) {
  const io::SafetensorsFile data(test::golden_path("image/recipe/resize_opencv.safetensors"));
  const io::Json index = io::read_json_file(test::golden_path("image/recipe/resize_opencv.json"));
  int cubic = 0;
  int area = 0;
  for (const io::Json& row : index.items()) {
    const std::string name = test::text_of(row, "name");
    const std::vector<int64_t> to = test::integers_of(row, "dst");
    const Image source = from_tensor(data.view(*data.find(name + ".src")));
    const Image want = from_tensor(data.view(*data.find(name + ".dst")));
    const bool is_cubic = test::text_of(row, "kernel") == "cubic";
    const Image got = is_cubic ? resample(source, {to[0], to[1]}, Resampler::opencv_cubic)
                               : shrink_opencv_area(source, {to[0], to[1]});
    (is_cubic ? cubic : area) += 1;
    ASSERT_EQ(got.size(), want.size()) << name;
    EXPECT_EQ(std::memcmp(got.pixels(), want.pixels(), want.bytes().size()), 0) << name;
  }
  EXPECT_EQ(cubic, 10);
  EXPECT_EQ(area, 6);
}

// Hashes are those of opencv-python-headless 4.12.0.88 with setUseOptimized(False).
TEST(ResampleOpencv, AreaOfWholeBlocks) {
  const struct {
    Size from;
    Size to;
    const char* sha256_prefix;
    const char* why;
  } cases[] = {
      {{343, 147},
       {7, 3},
       "5c1658eaef4fa5a3",
       "1 / (1 / 49) is not 49: not a whole block for OpenCV"},
      {{64, 46}, {32, 23}, "ccbc5b8f7f2be121", "2 x 2 rounds halves up"},
      {{64, 46}, {16, 23}, "b01e285f13011f21", "4 x 2 rounds halves to even"},
      {{60, 45}, {20, 45}, "1c621b3b124ce6ac", "3 x 1"},
      {{1200, 7}, {512, 3}, "e72ac924d2232fb0", "a flat picture shrunk for detail: low"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(io::sha256_hex(shrink_opencv_area(drawing(c.from), c.to).bytes()).substr(0, 16),
              c.sha256_prefix)
        << c.why;
  }
}

TEST(ResampleOpencv, AreaNeverEnlarges) {
  const Image source = drawing({10, 8});
  EXPECT_EQ(io::sha256_hex(shrink_opencv_area(source, {10, 8}).bytes()),
            io::sha256_hex(source.bytes()));
  for (const Size size : {Size{11, 8}, Size{10, 9}, Size{0, 8}, Size{10, -1}}) {
    EXPECT_THROW(shrink_opencv_area(source, size), Error);
  }
  EXPECT_THROW(resize_opencv_cubic(source, {0, 1}), Error);
}

TEST(ResampleOpencv, CubicKeepsFlatPicturesAndSizes) {
  const Image flat({31, 17}, {255, 128, 0});
  for (const Size size : {Size{7, 5}, Size{64, 3}, Size{5, 90}, Size{31, 40}, Size{1, 1}}) {
    const Image want(size, {255, 128, 0});
    EXPECT_EQ(io::sha256_hex(resize_opencv_cubic(flat, size).bytes()),
              io::sha256_hex(want.bytes()));
  }
  const Image source = drawing({10, 8});
  EXPECT_EQ(io::sha256_hex(resize_opencv_cubic(source, {10, 8}).bytes()),
            io::sha256_hex(source.bytes()));
}

}  // namespace
}  // namespace tessera::image
