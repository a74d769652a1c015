// Picture files through policy `recipe`, against the vendor's serving library up to its last, lossy
// step. Golden data: tests/golden/image/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "intake/decode.h"
#include "io/sha256.h"
#include "models/deepseek_v41/image_plan.h"
#include "tests/support/json_lines.h"

namespace tessera {
namespace {

using deepseek_v41::ImageLimits;
using deepseek_v41::prepare_image;
using deepseek_v41::PreparedImage;
using Pair = std::vector<int64_t>;

intake::DecodeResult decode(const std::string& file) {
  return intake::try_decode_image(intake::read_image_file(test::golden_path("image/files/" + file)),
                                  {.policy = image::find_policy("recipe")});
}

PreparedImage prepare(const image::Image& picture, bool is_low_detail) {
  return prepare_image(picture, ImageLimits(),
                       {.policy = image::find_policy("recipe"), .is_low_detail = is_low_detail});
}

// Where limits of our own come first: a text chunk that inflates to 4 MB.
constexpr std::string_view kRefusedHere = "bad_png_text_bomb.png";
// A segment of length 0, over which libjpeg reads on, for Pillow too.
constexpr std::string_view kReadHere = "bad_jpeg_segment_len.jpg";

TEST(ImageRecipe, EveryFile) {
  int high = 0;
  int low = 0;
  int refused = 0;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path("image/recipe/recipe.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    const intake::DecodeResult decoded = decode(file);
    const auto* picture = std::get_if<intake::DecodedImage>(&decoded);
    if (row.find("error") != nullptr || file == kRefusedHere) {
      EXPECT_EQ(picture != nullptr, file == kReadHere) << file;
      refused += picture == nullptr ? 1 : 0;
      continue;
    }
    if (picture == nullptr) {
      ADD_FAILURE() << file << ": " << std::get<intake::Refusal>(decoded).detail;
      continue;
    }
    EXPECT_EQ(io::sha256_hex(picture->rgb.bytes()), test::text_of(row, "rgb_sha256")) << file;
    const bool is_low_detail = test::text_of(row, "detail") == "low";
    const PreparedImage got = prepare(picture->rgb, is_low_detail);
    const std::string what = file + (is_low_detail ? " low" : " high");
    EXPECT_EQ((Pair{got.canvas.width(), got.canvas.height()}), test::integers_of(row, "canvas"))
        << what;
    EXPECT_EQ(got.plan.canvas.span_tokens, test::integer_of(row, "image_tokens")) << what;
    EXPECT_EQ(io::sha256_hex(got.canvas.bytes()), test::text_of(row, "canvas_sha256")) << what;
    (is_low_detail ? low : high) += 1;
  }
  EXPECT_EQ(high, 104);
  EXPECT_EQ(low, 3);
  EXPECT_EQ(refused, 120);
}

// Pixels rather than hashes: when one differs this names it.
TEST(ImageRecipe, StoredCanvases) {
  for (const std::string file : {"jpeg_base_420.jpg", "png_grey16.png", "png_pal_trns.png",
                                 "png_rgba8.png", "webp_lossy_alpha.webp"}) {
    const std::string stored = test::golden_path("image/recipe/canvas/" + file + ".high.png");
    const image::Image want = intake::decode_image(intake::read_image_file(stored), stored).rgb;
    const intake::DecodeResult decoded = decode(file);
    ASSERT_TRUE(std::holds_alternative<intake::DecodedImage>(decoded)) << file;
    const image::Image got = prepare(std::get<intake::DecodedImage>(decoded).rgb, false).canvas;
    ASSERT_EQ(got.size(), want.size()) << file;
    const uint8_t* const end = want.pixels() + want.bytes().size();
    const auto [w, g] = std::mismatch(want.pixels(), end, got.pixels());
    if (w != end) {
      const int64_t at = w - want.pixels();
      ADD_FAILURE() << file << ": x " << at % want.row_bytes() / 3 << ", y "
                    << at / want.row_bytes() << ": " << int{*g} << ", expected " << int{*w};
    }
  }
}

}  // namespace
}  // namespace tessera
