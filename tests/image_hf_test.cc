// Policies `hf-fast` and `hf-slow` against the Qwen3-VL processors of Hugging Face's library.
// Golden data: tests/golden/image/README.md.
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "image/resample.h"
#include "intake/decode.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera {
namespace {

image::Image decode(const std::string& file, std::string_view policy) {
  const std::string path = test::golden_path("image/hf/" + file);
  return intake::decode_image(intake::read_image_file(path), path,
                              {.policy = image::find_policy(policy)})
      .rgb;
}

std::string hash_of(const image::Image& picture) { return io::sha256_hex(picture.bytes()); }

TEST(ImageHuggingFace, EveryResizedPicture) {
  int pictures = 0;
  for (const io::Json& row : test::read_json_lines(test::golden_path("image/hf/resample.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    const std::vector<int64_t> sides = test::integers_of(row, "resized");
    const image::Size size{sides[0], sides[1]};
    for (const auto& [policy, key] :
         {std::pair{"hf-fast", "torch_sha256"}, {"hf-slow", "pillow13_sha256"}}) {
      const image::Image resized =
          resample(decode(file, policy), size, image::find_policy(policy).resampler);
      EXPECT_EQ(hash_of(resized), test::text_of(row, key)) << file << " " << policy;
    }
    EXPECT_EQ(hash_of(resample(decode(file, "hf-slow"), size, image::Resampler::pillow12)),
              test::text_of(row, "pillow12_sha256"))
        << file;
    ++pictures;
  }
  EXPECT_EQ(pictures, 14);
}

// hf-slow is what the library's file loader makes of a file: EXIF applied, alpha dropped, 16-bit
// grey clipped. hf-fast puts transparency over white as the library does with pictures handed over
// by a program; unlike that it applies EXIF, and unlike the library it scales 16 bits.
TEST(ImageHuggingFace, EveryKindOfFile) {
  int files = 0;
  for (const io::Json& row : test::read_json_lines(test::golden_path("image/hf/decode.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    const std::string mode = test::text_of(row, "mode");
    const std::string from_file = test::text_of(row, "file_sha256");
    const std::string from_object = test::text_of(row, "object_sha256");
    EXPECT_EQ(hash_of(decode(file, "hf-slow")), from_file) << file;
    const bool is_turned = file.find("orientation") != std::string::npos;
    const image::Image fast = decode(file, "hf-fast");
    if (mode == "I;16") {
      EXPECT_NE(hash_of(fast), from_file);
    } else {
      EXPECT_EQ(hash_of(fast), from_object.empty() || is_turned ? from_file : from_object) << file;
    }
    ++files;
  }
  EXPECT_EQ(files, 10);
}

// Row y of the picture holds the 16-bit levels 341 * (16 y + x).
TEST(ImageHuggingFace, FastScalesSixteenBits) {
  const image::Image fast = decode("decode/grey16.png", "hf-fast");
  ASSERT_EQ(fast.size(), (image::Size{16, 12}));
  for (int64_t y = 0; y < fast.height(); ++y) {
    for (int64_t x = 0; x < fast.width(); ++x) {
      const int64_t level = 341 * (16 * y + x);
      ASSERT_EQ(int64_t{fast.row(y)[3 * x]}, (level + 128) / 257) << level;
    }
  }
}

}  // namespace
}  // namespace tessera
