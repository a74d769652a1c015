// The contract of `tessera image plan`: names and meaning of its JSON fields, both dialects of
// config.json, the drawing, and what it refuses.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "intake/decode.h"
#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

class ImagePlanCommand : public testing::Test {
 protected:
  static std::string golden_picture(const std::string& name) {
    return golden_path("image/files/" + name);
  }

  const TempFolder folder_;
  const std::string nested_ = folder_.write("nested.json", R"({
      "vision_config": {"patch_size": 14, "downsample_ratio": 3, "max_image_tokens": 128,
                        "min_pixels": 28224, "max_wh_ratio": null}})");
  const std::string flat_ = folder_.write("flat.json", R"({
      "vision_patch_size": 14, "vision_downsample_ratio": 3, "vision_max_n_token": 1024,
      "vision_min_pixels": 295936, "vision_max_wh_ratio": null})");
};

TEST_F(ImagePlanCommand, JsonFieldsEqualTheGoldenRow) {
  int rows = 0;
  for (const io::Json& row : read_json_lines(golden_path("image/manifest.jsonl"))) {
    const std::string file = text_of(row, "file");
    if (file != "png_tall_phone.png" && file != "jpeg_mpo.jpg" && file != "png_grey16.png") {
      continue;
    }
    for (const auto& [limits, config] : {std::pair{"demo", nested_}, {"release", flat_}}) {
      const io::Json& want = *row.find(limits);
      const io::Json got = json_of({"image", "plan", golden_picture(file), "--model", config});
      EXPECT_EQ(text_of(got, "format"), text_of(row, "format"));
      EXPECT_EQ(text_of(got, "mode"), text_of(row, "mode"));
      EXPECT_EQ(integers_of(got, "source"), integers_of(row, "size"));
      EXPECT_EQ(integers_of(got, "canvas"), integers_of(want, "canvas"));
      EXPECT_EQ(integers_of(got, "patches"), integers_of(want, "vit"));
      EXPECT_EQ(integers_of(got, "tokens"), integers_of(want, "llm"));
      EXPECT_EQ(integer_of(got, "span_tokens"), integer_of(want, "image_tokens"));
      EXPECT_EQ(integers_of(got, "content").size(), 4U);
      EXPECT_EQ(text_of(got, "policy"), "reference");
      EXPECT_EQ(text_of(got, "rgb_sha256"), text_of(row, "rgb_sha256"));
      EXPECT_EQ(text_of(got, "canvas_sha256"), text_of(want, "canvas_sha256"));
      EXPECT_EQ(text_of(got, "patches_sha256"), text_of(want, "patches_sha256"));
      if (const std::string old = text_of(want, "canvas_sha256_pillow12"); !old.empty()) {
        const io::Json older =
            json_of({"image", "plan", golden_picture(file), "--model", config, "--pillow", "12"});
        EXPECT_EQ(text_of(older, "canvas_sha256"), old);
      }
    }
    ++rows;
  }
  EXPECT_EQ(rows, 3);
}

TEST_F(ImagePlanCommand, PolicyRecipe) {
  int rows = 0;
  for (const io::Json& row : read_json_lines(golden_path("image/recipe/recipe.jsonl"))) {
    const std::string file = text_of(row, "file");
    if (file != "png_grey16.png" && file != "png_pal_trns.png") {
      continue;
    }
    const io::Json got =
        json_of({"image", "plan", golden_picture(file), "--model", flat_, "--policy", "recipe"});
    EXPECT_EQ(text_of(got, "policy"), "recipe");
    EXPECT_EQ(got.find("pillow"), nullptr);
    EXPECT_EQ(text_of(got, "rgb_sha256"), text_of(row, "rgb_sha256"));
    EXPECT_EQ(text_of(got, "canvas_sha256"), text_of(row, "canvas_sha256"));
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

TEST_F(ImagePlanCommand, DrawsACanvasThatIsLargerThanTheOriginal) {
  const std::string png = folder_ / "plan.png";
  const std::string text = output_of(
      {"image", "plan", golden_picture("png_rgba8.png"), "--model", nested_, "--png", png});
  EXPECT_NE(text.find("26 tokens"), std::string::npos) << text;
  const image::Image drawing = intake::decode_image(intake::read_image_file(png), png).rgb;
  // 196 x 154 canvas pixels, enlarged six times, and a margin on each side.
  EXPECT_GT(drawing.width(), 196 * 6);
  EXPECT_GT(drawing.height(), 154 * 6);
  EXPECT_LT(drawing.width(), 196 * 7);
}

TEST_F(ImagePlanCommand, RefusesWhatItCannotDo) {
  const auto expect_refused = [](const std::string& file, const std::string& model,
                                 const Arguments& more,
                                 std::initializer_list<std::string_view> parts) {
    Arguments arguments = {"image", "plan", file, "--model", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    SCOPED_TRACE(file + " " + testing::PrintToString(more));
    expect_error(run_program(arguments), 2, parts);
  };
  const std::string good = golden_picture("png_rgb8.png");
  expect_refused(good, nested_, {"--policy", "recipes"}, {"recipes", "hf-slow"});
  expect_refused(good, nested_, {"--policy", "recipe", "--pillow", "12"},
                 {"--pillow 12", "leave --pillow out"});
  expect_refused(golden_picture("bmp_24.bmp"), nested_, {"--policy", "recipe"},
                 {"bmp_24.bmp", "convert to JPEG or PNG"});
  expect_refused(good, nested_, {"--pillow", "11"}, {"--pillow 11", "12 or 13"});
  expect_refused(good, folder_ / "no_such_model", {}, {"no_such_model", "no such folder"});
  expect_refused(golden_picture("bad_html.png"), nested_, {}, {"bad_html.png", "HTML page"});
  expect_refused(golden_picture("other_avif.avif"), nested_, {}, {"other_avif.avif", "AVIF"});
  expect_refused(folder_ / "no_such_picture.png", nested_, {},
                 {"no_such_picture.png", "check the path"});
  const std::string broken = folder_.write("broken.json", R"({
      "vision_config": {"patch_size": 0, "downsample_ratio": 3, "max_image_tokens": 128,
                        "min_pixels": 28224}})");
  expect_refused(good, broken, {}, {"broken.json", "patch_size is 0"});
}

}  // namespace
}  // namespace tessera::test
