#include "intake/notices.h"

#include <gtest/gtest.h>

#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

std::string notice_of(const std::string& file, const std::string& policy_name) {
  const image::Policy& policy = image::find_policy(policy_name);
  const std::string path = test::golden_path("image/files/" + file);
  const DecodedImage decoded = decode_image(read_image_file(path), file, {.policy = policy});
  std::string all;
  for (const std::string& line : notices(decoded, file, policy)) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_TRUE(line.starts_with(file + ": "));
    all += line;
  }
  return all;
}

TEST(Notices, TransparentParts) {
  EXPECT_NE(notice_of("png_rgba8.png", "reference").find("hidden"), std::string::npos);
  EXPECT_NE(notice_of("png_rgba8.png", "recipe").find("light background"), std::string::npos);
  EXPECT_NE(notice_of("png_pal_trns.png", "reference").find("hidden"), std::string::npos);
}

TEST(Notices, SixteenBitsOfGrey) {
  EXPECT_NE(notice_of("png_grey16.png", "reference").find("white"), std::string::npos);
  EXPECT_EQ(notice_of("png_grey16.png", "recipe"), "");
  EXPECT_EQ(notice_of("png_rgb16.png", "reference"), "");  // loses only what nobody sees
}

TEST(Notices, TurnedByExif) {
  EXPECT_NE(notice_of("jpeg_exif_o6.jpg", "reference").find("--exif-rotate"), std::string::npos);
  EXPECT_EQ(notice_of("jpeg_exif_o6.jpg", "hf-slow"), "");
  EXPECT_EQ(notice_of("jpeg_exif_o1.jpg", "reference"), "");
}

TEST(Notices, NothingToSayOfMostPictures) {
  EXPECT_EQ(notice_of("png_rgb8.png", "reference"), "");
  EXPECT_EQ(notice_of("jpeg_base_444.jpg", "recipe"), "");
}

}  // namespace
}  // namespace tessera::intake
