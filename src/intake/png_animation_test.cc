#include "intake/png_animation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "intake/decode.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

std::vector<std::byte> file(const std::string& name) {
  return read_image_file(test::golden_path("image/files/" + name));
}

size_t place_of(const std::vector<std::byte>& bytes, std::string_view type) {
  const std::span<const std::byte> key = std::as_bytes(std::span(type));
  return static_cast<size_t>(std::search(bytes.begin(), bytes.end(), key.begin(), key.end()) -
                             bytes.begin());
}

// The frame that OpenCV 4.12 reads.
TEST(PngAnimation, FirstFrameTakesThePlaceOfTheDefaultImage) {
  std::string want;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path("image/recipe/recipe.jsonl"))) {
    if (test::text_of(row, "file") == "apng_default_image.png") {
      want = test::text_of(row, "rgb_sha256");
    }
  }
  const std::vector<std::byte> bytes = file("apng_default_image.png");
  const DecodedImage frame =
      decode_image(bytes, "first frame", {.policy = image::find_policy("recipe")});
  EXPECT_EQ(io::sha256_hex(frame.rgb.bytes()), want);
  EXPECT_NE(io::sha256_hex(decode_image(bytes, "default image").rgb.bytes()), want);
}

TEST(PngAnimation, OtherFilesHaveNoFrameBehindTheDefaultImage) {
  for (const char* name : {"apng_3frames.png", "png_rgb8.png", "png_pal_trns.png"}) {
    EXPECT_TRUE(first_frame_behind_default(file(name)).file.empty()) << name;
  }
}

// A frame of part of the picture: the rest is transparent.
TEST(PngAnimation, ASmallFrameLiesOnTheBackground) {
  std::vector<std::byte> bytes = file("apng_default_image.png");
  const size_t control = place_of(bytes, "fcTL") + 4;
  bytes[control + 11] = std::byte{20};  // lines of the frame; its data has 48
  bytes[control + 19] = std::byte{5};   // first line
  const FirstFrame frame = first_frame_behind_default(bytes);
  EXPECT_EQ(frame.place, (image::Box{.x = 0, .y = 5, .width = 64, .height = 20}));
  bytes[control + 19] = std::byte{29};  // beyond the canvas
  EXPECT_TRUE(first_frame_behind_default(bytes).file.empty());
}

TEST(PngAnimation, DamageIsStillFound) {
  std::vector<std::byte> bytes = file("apng_default_image.png");
  bytes[place_of(bytes, "fdAT") + 100] ^= std::byte{1};
  const DecodeResult result = try_decode_image(bytes, {.policy = image::find_policy("recipe")});
  ASSERT_TRUE(std::holds_alternative<Refusal>(result));
  EXPECT_EQ(std::get<Refusal>(result).fault, Fault::corrupt);
}

}  // namespace
}  // namespace tessera::intake
