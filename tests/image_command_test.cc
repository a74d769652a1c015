// The contract of `tessera image plan`: names and meaning of its JSON fields, both dialects of
// config.json, the drawing, and what it refuses.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "apps/tessera/commands.h"
#include "base/error.h"
#include "intake/decode.h"
#include "tests/support/json_lines.h"

namespace tessera {
namespace {

class ImagePlanCommand : public testing::Test {
 protected:
  void SetUp() override {
    write(nested_, R"({"vision_config": {"patch_size": 14, "downsample_ratio": 3,
                       "max_image_tokens": 128, "min_pixels": 28224, "max_wh_ratio": null}})");
    write(flat_, R"({"vision_patch_size": 14, "vision_downsample_ratio": 3,
                     "vision_max_n_token": 1024, "vision_min_pixels": 295936,
                     "vision_max_wh_ratio": null})");
  }

  static void write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  // Standard output of `tessera image plan ARGUMENTS`; errors leave as they do in main().
  static std::string run(std::vector<std::string> arguments) {
    CLI::App app;
    add_image_command(app);
    arguments.insert(arguments.begin(), {"image", "plan"});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes vectors
    testing::internal::CaptureStdout();
    try {
      app.parse(std::move(arguments));
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }

  static std::string picture(const std::string& name) {
    return test::golden_path("image/files/" + name);
  }

  const std::string folder_ = testing::TempDir();
  const std::string nested_ = folder_ + "tessera_image_nested.json";
  const std::string flat_ = folder_ + "tessera_image_flat.json";
};

TEST_F(ImagePlanCommand, JsonFieldsEqualTheGoldenRow) {
  for (const io::Json& row : test::read_json_lines(test::golden_path("image/manifest.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (file != "png_tall_phone.png" && file != "jpeg_mpo.jpg" && file != "png_grey16.png") {
      continue;
    }
    for (const auto& [limits, config] : {std::pair{"demo", nested_}, {"release", flat_}}) {
      const io::Json& want = *row.find(limits);
      const io::Json got =
          io::parse_json(run({picture(file), "--model", config, "--json"}), "output");
      EXPECT_EQ(test::text_of(got, "format"), test::text_of(row, "format"));
      EXPECT_EQ(test::text_of(got, "mode"), test::text_of(row, "mode"));
      EXPECT_EQ(test::integers_of(got, "source"), test::integers_of(row, "size"));
      EXPECT_EQ(test::integers_of(got, "canvas"), test::integers_of(want, "canvas"));
      EXPECT_EQ(test::integers_of(got, "patches"), test::integers_of(want, "vit"));
      EXPECT_EQ(test::integers_of(got, "tokens"), test::integers_of(want, "llm"));
      EXPECT_EQ(test::integer_of(got, "span_tokens"), test::integer_of(want, "image_tokens"));
      EXPECT_EQ(test::integers_of(got, "content").size(), 4U);
      EXPECT_EQ(test::text_of(got, "policy"), "reference");
      EXPECT_EQ(test::text_of(got, "rgb_sha256"), test::text_of(row, "rgb_sha256"));
      EXPECT_EQ(test::text_of(got, "canvas_sha256"), test::text_of(want, "canvas_sha256"));
      EXPECT_EQ(test::text_of(got, "patches_sha256"), test::text_of(want, "patches_sha256"));
      if (const std::string old = test::text_of(want, "canvas_sha256_pillow12"); !old.empty()) {
        const io::Json older = io::parse_json(
            run({picture(file), "--model", config, "--json", "--pillow", "12"}), "output");
        EXPECT_EQ(test::text_of(older, "canvas_sha256"), old);
      }
    }
  }
}

TEST_F(ImagePlanCommand, PolicyRecipe) {
  int rows = 0;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path("image/recipe/recipe.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (file != "png_grey16.png" && file != "png_pal_trns.png") {
      continue;
    }
    const io::Json got = io::parse_json(
        run({picture(file), "--model", flat_, "--policy", "recipe", "--json"}), "output");
    EXPECT_EQ(test::text_of(got, "policy"), "recipe");
    EXPECT_EQ(got.find("pillow"), nullptr);
    EXPECT_EQ(test::text_of(got, "rgb_sha256"), test::text_of(row, "rgb_sha256"));
    EXPECT_EQ(test::text_of(got, "canvas_sha256"), test::text_of(row, "canvas_sha256"));
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

TEST_F(ImagePlanCommand, DrawsACanvasThatIsLargerThanTheOriginal) {
  const std::string png = folder_ + "tessera_image_plan.png";
  const std::string text = run({picture("png_rgba8.png"), "--model", nested_, "--png", png});
  EXPECT_NE(text.find("26 tokens"), std::string::npos) << text;
  const image::Image drawing = intake::decode_image(intake::read_image_file(png), png).rgb;
  // 196 x 154 canvas pixels, enlarged six times, and a margin on each side.
  EXPECT_GT(drawing.width(), 196 * 6);
  EXPECT_GT(drawing.height(), 154 * 6);
  EXPECT_LT(drawing.width(), 196 * 7);
}

TEST_F(ImagePlanCommand, RefusesWhatItCannotDo) {
  const auto code_of = [](const std::vector<std::string>& arguments) {
    try {
      run(arguments);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::cancelled;  // never thrown by this command
  };
  const std::string good = picture("png_rgb8.png");
  EXPECT_EQ(code_of({good, "--model", nested_, "--policy", "recipes"}), ErrorCode::bad_request);
  EXPECT_EQ(code_of({good, "--model", nested_, "--policy", "recipe", "--pillow", "12"}),
            ErrorCode::bad_request);
  EXPECT_EQ(code_of({picture("bmp_24.bmp"), "--model", nested_, "--policy", "recipe"}),
            ErrorCode::unsupported);
  EXPECT_EQ(code_of({good, "--model", nested_, "--pillow", "11"}), ErrorCode::bad_request);
  EXPECT_EQ(code_of({good, "--model", folder_ + "no_such_model"}), ErrorCode::bad_file);
  EXPECT_EQ(code_of({picture("bad_html.png"), "--model", nested_}), ErrorCode::bad_request);
  EXPECT_EQ(code_of({picture("other_avif.avif"), "--model", nested_}), ErrorCode::unsupported);
  EXPECT_EQ(code_of({folder_ + "no_such_picture.png", "--model", nested_}), ErrorCode::bad_file);
  const std::string broken = folder_ + "tessera_image_broken.json";
  write(broken, R"({"vision_config": {"patch_size": 0, "downsample_ratio": 3,
                     "max_image_tokens": 128, "min_pixels": 28224}})");
  EXPECT_EQ(code_of({good, "--model", broken}), ErrorCode::bad_file);
}

}  // namespace
}  // namespace tessera
