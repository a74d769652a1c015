// Picture files to canvases and patch rows, against the official image processor: decoder, planner,
// resampler and patch layout together. Golden data: tests/golden/image/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "intake/decode.h"
#include "io/safetensors.h"
#include "io/sha256.h"
#include "models/deepseek_v41/image_plan.h"
#include "tests/support/json_lines.h"

namespace tessera {
namespace {

using deepseek_v41::ImageLimits;
using deepseek_v41::prepare_image;
using deepseek_v41::PreparedImage;

const ImageLimits kRelease;
const ImageLimits kDemo{.max_tokens = 128, .min_pixels = 28224};

std::string hash_of(const TensorView& view) {
  return io::sha256_hex({view.data, static_cast<size_t>(view.bytes())});
}

intake::DecodeResult decode(const std::string& file) {
  const std::vector<std::byte> bytes =
      intake::read_image_file(test::golden_path("image/files/" + file));
  return intake::try_decode_image(bytes);
}

TEST(ImagePipeline, EveryCanvasAndPatchRow) {
  int pictures = 0;
  int old_orders = 0;
  for (const io::Json& row : test::read_json_lines(test::golden_path("image/manifest.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    const intake::DecodeResult decoded = decode(file);
    const auto* picture = std::get_if<intake::DecodedImage>(&decoded);
    if (picture == nullptr) {
      continue;  // the decoder's own test judges refusals
    }
    for (const auto& [name, limits] : {std::pair{"release", &kRelease}, {"demo", &kDemo}}) {
      const io::Json* want = row.find(name);
      ASSERT_NE(want, nullptr) << file;
      const PreparedImage got = prepare_image(picture->rgb, *limits);
      EXPECT_EQ(got.plan.canvas.span_tokens, test::integer_of(*want, "image_tokens")) << file;
      EXPECT_EQ(io::sha256_hex(got.canvas.bytes()), test::text_of(*want, "canvas_sha256"))
          << file << " " << name;
      EXPECT_EQ(hash_of(got.patches.view()), test::text_of(*want, "patches_sha256"))
          << file << " " << name;
      if (const std::string old_hash = test::text_of(*want, "canvas_sha256_pillow12");
          !old_hash.empty()) {
        image::Policy pillow12 = image::reference_policy();
        pillow12.resampler = image::Resampler::pillow12;
        const PreparedImage old = prepare_image(picture->rgb, *limits, {.policy = pillow12});
        EXPECT_EQ(io::sha256_hex(old.canvas.bytes()), old_hash) << file << " " << name;
        ++old_orders;
      }
    }
    ++pictures;
  }
  EXPECT_GE(pictures, 76);
  EXPECT_EQ(old_orders, 2);
}

// Pixels rather than hashes: when one differs this names it.
TEST(ImagePipeline, StoredCanvases) {
  const std::pair<std::string, std::string> canvases[] = {
      {"jpeg_base_420.jpg", "release"}, {"jpeg_cmyk_adobe.jpg", "demo"},
      {"png_1x400.png", "demo"},        {"png_1x400.png", "release"},
      {"png_pal_trns.png", "demo"},     {"png_tall_phone.png", "demo"},
  };
  for (const auto& [file, limits] : canvases) {
    const std::string stored = "image/canvas/" + file + "." + limits + ".png";
    const intake::DecodedImage want =
        intake::decode_image(intake::read_image_file(test::golden_path(stored)), stored);
    const intake::DecodeResult source = decode(file);
    const PreparedImage got = prepare_image(std::get<intake::DecodedImage>(source).rgb,
                                            limits == "demo" ? kDemo : kRelease);
    ASSERT_EQ(got.canvas.size(), want.rgb.size()) << stored;
    const uint8_t* const end = want.rgb.pixels() + want.rgb.bytes().size();
    const auto [w, g] = std::mismatch(want.rgb.pixels(), end, got.canvas.pixels());
    if (w != end) {
      const int64_t at = w - want.rgb.pixels();
      ADD_FAILURE() << stored << ": x " << at % want.rgb.row_bytes() / 3 << ", y "
                    << at / want.rgb.row_bytes() << ": " << int{*g} << ", expected " << int{*w};
    }
  }
}

TEST(ImagePipeline, StoredPatchRows) {
  const io::SafetensorsFile data(test::golden_path("image/canvas/png_1x400.png.safetensors"));
  const intake::DecodeResult source = decode("png_1x400.png");
  for (const auto& [name, limits] : {std::pair{"release", &kRelease}, {"demo", &kDemo}}) {
    const PreparedImage got = prepare_image(std::get<intake::DecodedImage>(source).rgb, *limits);
    const int64_t row_bytes =
        got.plan.canvas.patches.columns * got.patches.shape()[1] * dtype_bytes(DType::bf16);
    const TensorView first = data.view(*data.find(std::string(name) + ".first_row"));
    const TensorView last = data.view(*data.find(std::string(name) + ".last_row"));
    ASSERT_EQ(first.bytes(), row_bytes);
    const std::byte* rows = got.patches.view().data;
    EXPECT_TRUE(std::equal(first.data, first.data + row_bytes, rows)) << name;
    EXPECT_TRUE(
        std::equal(last.data, last.data + row_bytes, rows + got.patches.bytes() - row_bytes))
        << name;
  }
}

}  // namespace
}  // namespace tessera
