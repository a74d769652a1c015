// The planner against the reference's answers. Golden rows: tests/golden/image/README.md.
#include "models/deepseek_v41/image_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::deepseek_v41 {
namespace {

using image::Box;
using image::Image;
using image::Size;

const ImageLimits kRelease;
const ImageLimits kDemo{.max_tokens = 128, .min_pixels = 28224};

std::vector<int64_t> pair(int64_t a, int64_t b) { return {a, b}; }

void expect_canvas(const CanvasPlan& canvas, const io::Json& row, const std::string& what) {
  EXPECT_EQ(pair(canvas.size.width, canvas.size.height), test::integers_of(row, "canvas")) << what;
  EXPECT_EQ(pair(canvas.patches.rows, canvas.patches.columns), test::integers_of(row, "vit"))
      << what;
  EXPECT_EQ(pair(canvas.tokens.rows, canvas.tokens.columns), test::integers_of(row, "llm")) << what;
  EXPECT_EQ(canvas.span_tokens, test::integer_of(row, "image_tokens")) << what;
}

TEST(ImagePlan, EqualsEveryGoldenRow) {
  std::map<std::string, int> planned;
  int refused = 0;
  for (const io::Json& row : test::read_json_lines(test::golden_path("image/plan.jsonl"))) {
    const Size source{test::integer_of(row, "w"), test::integer_of(row, "h")};
    const std::string limits_name = test::text_of(row, "limits");
    const std::string policy = test::text_of(row, "policy");
    const std::string detail = test::text_of(row, "detail");
    const ImageLimits& limits = limits_name == "demo" ? kDemo : kRelease;
    const PrepareOptions options{.policy = image::find_policy(policy),
                                 .is_low_detail = detail == "low"};
    const std::string what =
        str_cat(source.width, " x ", source.height, " ", limits_name, " ", policy, " ", detail);
    if (row.find("error") != nullptr) {
      expect_canvas(plan_canvas(source, limits), row, what);
      EXPECT_THROW(plan_image(source, limits, options), Error) << what;
      ++refused;
      continue;
    }
    const ImagePlan plan = plan_image(source, limits, options);
    expect_canvas(plan.canvas, row, what);
    EXPECT_EQ(pair(plan.content.width, plan.content.height), test::integers_of(row, "resized"))
        << what;
    EXPECT_EQ(pair(plan.content.x, plan.content.y), test::integers_of(row, "offset")) << what;
    if (policy == "recipe") {
      EXPECT_EQ(pair(plan.shrunk.width, plan.shrunk.height), test::integers_of(row, "shrunk"))
          << what;
    } else {
      EXPECT_EQ(plan.shrunk, source) << what;
    }
    ++planned[policy + detail];
  }
  EXPECT_EQ(planned, (std::map<std::string, int>{
                         {"reference", 821}, {"recipehigh", 832}, {"recipelow", 594}}));
  EXPECT_EQ(refused, 11);
}

// Specification section 2.7: a plan is planned again, and low detail is the recipe's alone.
TEST(ImagePlan, RepeatedPlans) {
  const image::Policy& recipe = image::find_policy("recipe");
  EXPECT_EQ(plan_canvas({533, 9}, kRelease).size, (Size{4186, 70}));
  EXPECT_EQ(plan_image({533, 9}, kRelease, {.policy = recipe}).canvas.size, (Size{4228, 70}));
  EXPECT_EQ(plan_image({1, 100000}, kRelease, {.policy = recipe}).content.width, 1);
  for (const Size size : {Size{43000, 1}, Size{1, 43000}, Size{20000, 10}, Size{10, 20000}}) {
    const Size canvas = plan_image(size, kRelease, {.policy = recipe}).canvas.size;
    EXPECT_LE(std::max(canvas.width, canvas.height), 16383);
  }
  for (const image::Policy& policy : image::policies()) {
    const Size shrunk =
        plan_image({4000, 3000}, kRelease, {.policy = policy, .is_low_detail = true}).shrunk;
    EXPECT_EQ(shrunk, policy.name == "recipe" ? (Size{512, 384}) : (Size{4000, 3000}))
        << policy.name;
  }
}

// Limits of no published model: a plan that never settles is refused, not repeated for ever.
TEST(ImagePlan, RepeatedPlansEnd) {
  const PrepareOptions recipe{.policy = image::find_policy("recipe")};
  const ImageLimits endless{
      .patch = 1, .downsample = 1, .max_tokens = 262144, .min_pixels = int64_t{1} << 30};
  try {
    plan_image({1, 20000}, endless, recipe);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    EXPECT_NE(std::string(error.what()).find("found no end"), std::string::npos) << error.what();
  }
}

// Specification section 2.6, and the sizes of section 13 that tell wrong arithmetic apart.
TEST(ImagePlan, WorkedSizes) {
  struct Case {
    Size source;
    Size canvas;
    Box content;
    Grid patches;
    Grid tokens;
    int64_t span;
  };
  const Case cases[] = {
      {{544, 544}, {546, 546}, {0, 0, 546, 546}, {39, 39}, {13, 13}, 184},
      {{1008, 1008}, {1008, 1008}, {0, 0, 1008, 1008}, {72, 72}, {24, 24}, 602},
      {{1302, 1302}, {1302, 1302}, {0, 0, 1302, 1302}, {93, 93}, {31, 31}, 994},
      {{1344, 1344}, {1302, 1302}, {0, 0, 1302, 1302}, {93, 93}, {31, 31}, 994},
      {{1920, 1080}, {1708, 966}, {0, 2, 1708, 961}, {69, 122}, {23, 41}, 968},
      {{640, 480}, {644, 490}, {0, 4, 644, 483}, {35, 46}, {12, 16}, 206},
      {{1, 1}, {546, 546}, {0, 0, 546, 546}, {39, 39}, {13, 13}, 184},
      {{20000, 10}, {24332, 14}, {0, 1, 24332, 12}, {1, 1738}, {1, 580}, 583},
      {{10, 20000}, {42, 21462}, {16, 0, 11, 21462}, {1533, 3}, {511, 1}, 1024},
      {{16923, 1}, {42882, 42}, {0, 20, 42882, 3}, {3, 3063}, {1, 1021}, 1024},
      {{37, 53}, {462, 658}, {2, 0, 459, 658}, {47, 33}, {16, 11}, 194},
      {{4000, 3000}, {1512, 1134}, {0, 0, 1512, 1134}, {81, 108}, {27, 36}, 1001},
      {{3000, 4000}, {1134, 1512}, {0, 0, 1134, 1512}, {108, 81}, {36, 27}, 1010},
      {{512, 512}, {546, 546}, {0, 0, 546, 546}, {39, 39}, {13, 13}, 184},
      {{545, 543}, {546, 546}, {0, 1, 546, 544}, {39, 39}, {13, 13}, 184},
      {{543, 545}, {546, 546}, {1, 0, 544, 546}, {39, 39}, {13, 13}, 184},
      {{1288, 1316}, {1274, 1302}, {0, 0, 1274, 1302}, {93, 91}, {31, 31}, 994},
      {{2048, 100}, {2464, 126}, {0, 3, 2464, 120}, {9, 176}, {3, 59}, 182},
      {{100, 2048}, {126, 2464}, {3, 0, 120, 2464}, {176, 9}, {59, 3}, 238},
      {{1400, 560}, {1400, 560}, {0, 0, 1400, 560}, {40, 100}, {14, 34}, 492},
  };
  for (const Case& c : cases) {
    const ImagePlan plan = plan_image(c.source, kRelease);
    const std::string what = str_cat(c.source.width, " x ", c.source.height);
    EXPECT_EQ(plan.canvas.size, c.canvas) << what;
    EXPECT_EQ(plan.content, c.content) << what;
    EXPECT_EQ(plan.canvas.patches, c.patches) << what;
    EXPECT_EQ(plan.canvas.tokens, c.tokens) << what;
    EXPECT_EQ(plan.canvas.span_tokens, c.span) << what;
  }
  EXPECT_EQ(plan_canvas({4459, 1069}, kRelease).patches, (Grid{44, 187}));
  EXPECT_EQ(plan_canvas({3031, 4948}, kRelease).patches, (Grid{117, 71}));
  EXPECT_EQ(plan_canvas({5140, 2724}, kRelease).patches, (Grid{68, 128}));
  EXPECT_EQ(plan_canvas({3868, 7389}, kRelease).patches, (Grid{126, 66}));
  EXPECT_EQ(plan_canvas({17583, 832}, kRelease).patches, (Grid{17, 380}));
}

TEST(ImagePlan, SaysWhyAVanishedSideIsRefused) {
  try {
    plan_image({1, 100000}, kRelease);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    const std::string message = error.what();
    EXPECT_NE(message.find("1 x 100000"), std::string::npos) << message;
    EXPECT_NE(message.find("width rounds to 0"), std::string::npos) << message;
    EXPECT_NE(message.find("less than 42924 times"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(plan_image({1, 42923}, kRelease));
  EXPECT_THROW(plan_image({1, 42924}, kRelease), Error);
  EXPECT_THROW(plan_image({0, 5}, kRelease), Error);
  EXPECT_THROW(plan_image({5, -1}, kRelease), Error);
}

// A plan within its limits, or a refusal.
void expect_within_budget(Size source, const ImageLimits& limits, const image::Policy& policy) {
  try {
    const ImagePlan plan = plan_image(source, limits, {.policy = policy});
    ASSERT_LE(plan.canvas.span_tokens, limits.max_tokens);
    ASSERT_EQ(plan.canvas.size.width, plan.canvas.patches.columns * limits.patch);
    ASSERT_GE(plan.content.x, 0);
    ASSERT_GE(plan.content.y, 0);
    ASSERT_LE(plan.content.x + plan.content.width, plan.canvas.size.width);
    ASSERT_LE(plan.content.y + plan.content.height, plan.canvas.size.height);
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::bad_request);
  }
}

// Budget and grid hold for every shape and for limits no published model has.
TEST(ImagePlan, NeverExceedsTheBudget) {
  const ImageLimits odd[] = {
      kRelease,
      kDemo,
      {.patch = 16, .downsample = 2, .max_tokens = 64, .min_pixels = 0},
      {.patch = 14, .downsample = 1, .max_tokens = 9, .min_pixels = 1 << 20},
      {.patch = 1, .downsample = 1, .max_tokens = 4, .min_pixels = 100},
  };
  for (const ImageLimits& limits : odd) {
    for (int64_t width = 1; width < 70000; width += 1 + width / 3) {
      for (int64_t height = 1; height < 70000; height += 1 + height / 3) {
        expect_within_budget({width, height}, limits, image::reference_policy());
        expect_within_budget({width, height}, limits, image::find_policy("recipe"));
      }
    }
  }
}

// With max_wh_ratio a wide picture is planned at the cut width and squeezed without padding.
TEST(ImagePlan, WidthRatioSqueezes) {
  const ImageLimits limits{.max_wh_ratio = 2.0};
  const ImagePlan wide = plan_image({4000, 1000}, limits);
  EXPECT_EQ(wide.canvas.size, plan_canvas({2000, 1000}, kRelease).size);
  EXPECT_EQ(wide.content, (Box{0, 0, wide.canvas.size.width, wide.canvas.size.height}));
  EXPECT_EQ(plan_image({1920, 1080}, limits).content, plan_image({1920, 1080}, kRelease).content);
}

TEST(ImagePlan, RefusesLimitsNoModelHas) {
  EXPECT_NO_THROW(validate(kRelease, "config.json"));
  EXPECT_NO_THROW(validate(kDemo, "config.json"));
  const auto refusal = [](const ImageLimits& limits) -> std::string {
    try {
      validate(limits, "a/config.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.patch = 0}),
            "a/config.json: patch_size is 0, expected 1 to 1024; wrong config.json?");
  EXPECT_NE(refusal({.downsample = 0}), "");
  EXPECT_NE(refusal({.max_tokens = 3}), "");
  EXPECT_NE(refusal({.min_pixels = -1}), "");
  EXPECT_NE(refusal({.max_wh_ratio = 0.0}), "");
}

// Specification section 15.3: a drawn picture through resize and padding.
TEST(ImagePlan, CanvasesOfTheSpecification) {
  struct Case {
    Size source;
    Size canvas;
    const char* sha256_prefix;
    int64_t byte_sum;
    image::Rgb centre;
  };
  const Case cases[] = {
      {{37, 53}, {462, 658}, "48fe552f120aa85ebd2ba8ec15fa41bf", 111652653, {204, 198, 224}},
      {{545, 543}, {546, 546}, "b269f1b801194bae114bef33276dd901", 113704028, {161, 93, 57}},
      {{640, 480}, {644, 490}, "1cd882bdce6fd12e1c43abaf6d35e728", 120416365, {143, 174, 107}},
      {{1400, 560}, {1400, 560}, "7a6a2f2e7f4fe94d800a5bb94a25e105", 299321632, {108, 136, 171}},
      {{2048, 100}, {2464, 126}, "b5c7172da3b57b45e533ca8f24197216", 118438667, {149, 250, 20}},
      {{10, 20000}, {42, 21462}, "126e1f75e03d6d0e9141199b4e98e439", 341047827, {80, 100, 83}},
      {{20000, 10}, {24332, 14}, "855eb4fd63167f0983c23249150615b8", 123128616, {126, 36, 90}},
  };
  for (const Case& c : cases) {
    Image source(c.source);
    for (int64_t y = 0; y < c.source.height; ++y) {
      for (int64_t x = 0; x < c.source.width; ++x) {
        uint8_t* pixel = source.row(y) + 3 * x;
        pixel[0] = static_cast<uint8_t>(7 * x + 3 * y);
        pixel[1] = static_cast<uint8_t>(x * x + 5 * y);
        pixel[2] = static_cast<uint8_t>(x * y + 11);
      }
    }
    const PreparedImage prepared = prepare_image(source, kRelease);
    const Image& canvas = prepared.canvas;
    const std::string what = str_cat(c.source.width, " x ", c.source.height);
    ASSERT_EQ(canvas.size(), c.canvas) << what;
    EXPECT_EQ(io::sha256_hex(canvas.bytes()).substr(0, 32), c.sha256_prefix) << what;
    const int64_t bytes = canvas.row_bytes() * canvas.height();
    EXPECT_EQ(std::accumulate(canvas.pixels(), canvas.pixels() + bytes, int64_t{0}), c.byte_sum);
    const uint8_t* centre = canvas.row(canvas.height() / 2) + 3 * (canvas.width() / 2);
    EXPECT_EQ((image::Rgb{centre[0], centre[1], centre[2]}), c.centre) << what;
    EXPECT_EQ(prepared.patches.shape(), (Shape{prepared.plan.canvas.patches.count(), 588}));
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
