// WebP against Pillow and the recipe package. Golden files: tests/golden/image/README.md;
// files_extra/ by scripts/oracle/image_extra_webp_gif.py.
#include "intake/webp_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "intake/picture_test.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

using Bytes = std::vector<std::byte>;

Bytes picture(std::string_view name) {
  return read_image_file(str_cat(image_golden("files/"), name));
}

bool is_webp(const io::Json& row) { return test::text_of(row, "file").ends_with(".webp"); }

TEST(WebpDecode, GoldenFilesByReference) {
  check_manifest(".webp", "WEBP", 9, [](const DecodedImage& got, const std::string& file) {
    EXPECT_EQ(got.has_transparency, got.mode == "RGBA") << file;
  });
}

TEST(WebpDecode, GoldenFilesByRecipe) { check_recipe(".webp", 9); }

// Offset first frames, alpha that the header denies, and chunks that do not fit together.
TEST(WebpDecode, UnusualFiles) {
  int rows = 0;
  for (const io::Json& row : test::read_json_lines(image_golden("files_extra/webp_gif.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (!is_webp(row)) {
      continue;
    }
    ++rows;
    const Bytes bytes = read_image_file(str_cat(image_golden("files_extra/"), file));
    const DecodeResult reference = try_decode_image(bytes);
    const DecodeResult recipe = try_decode_image(bytes, options_of("recipe"));
    if (row.find("refuse") != nullptr) {
      EXPECT_EQ(fault_of(reference), test::text_of(row, "refuse")) << file;
      EXPECT_EQ(fault_of(recipe), test::text_of(row, "recipe_refuse")) << file;
      continue;
    }
    EXPECT_EQ(rgb_sha256(reference), test::text_of(row, "rgb_sha256")) << file;
    EXPECT_EQ(rgb_sha256(recipe), test::text_of(row, "recipe_rgb_sha256")) << file;
    ASSERT_EQ(fault_of(reference), "accepted");
    const DecodedImage& got = std::get<DecodedImage>(reference);
    EXPECT_EQ(got.mode, test::text_of(row, "mode")) << file;
    EXPECT_EQ((std::vector<int64_t>{got.rgb.width(), got.rgb.height()}),
              test::integers_of(row, "size"))
        << file;
    EXPECT_EQ(got.has_transparency, row.find("transparent")->as_boolean()) << file;
  }
  EXPECT_EQ(rows, 12);
}

TEST(WebpDecode, RotatesByExifWherePoliciesSaySo) {
  const auto check = [](const Bytes& bytes, int orientation, const std::string& rotated) {
    const DecodeResult plain = try_decode_image(bytes);
    ASSERT_EQ(fault_of(plain), "accepted");
    EXPECT_EQ(std::get<DecodedImage>(plain).exif_orientation, orientation);
    EXPECT_NE(rgb_sha256(plain), rotated);
    EXPECT_EQ(rgb_sha256(try_decode_image(bytes, options_of("hf-slow"))), rotated);
  };
  for (const io::Json& row : test::read_json_lines(image_golden("manifest.jsonl"))) {
    if (test::text_of(row, "file") == "webp_exif3.webp") {
      check(picture("webp_exif3.webp"), 3, test::text_of(*row.find("exif_rotated"), "rgb_sha256"));
    }
  }
  for (const io::Json& row : test::read_json_lines(image_golden("files_extra/webp_gif.jsonl"))) {
    if (row.find("orientation") != nullptr) {
      check(read_image_file(str_cat(image_golden("files_extra/"), test::text_of(row, "file"))), 6,
            test::text_of(row, "rotated_rgb_sha256"));
    }
  }
}

TEST(WebpDecode, NoPrefixIsAccepted) {
  for (const std::string_view name :
       {"webp_1x1.webp", "webp_lossy_odd.webp", "webp_lossless.webp", "webp_lossy_alpha.webp",
        "webp_anim.webp", "webp_exif3.webp"}) {
    const Bytes whole = picture(name);
    for (size_t size = 12; size < whole.size(); ++size) {
      ASSERT_EQ(fault_of(try_decode_image(std::span(whole).first(size))), "truncated")
          << name << " " << size;
    }
  }
}

// The sizes of the container and of its last chunk, which ends it, are made to fit.
Bytes cut_to_fit(Bytes bytes, size_t chunk, size_t size) {
  const auto store = [&bytes](size_t at, size_t value) {
    for (size_t i = 0; i < 4; ++i) {
      bytes[at + i] = static_cast<std::byte>(value >> 8 * i);
    }
  };
  bytes.resize(size);
  store(4, size - 8);
  store(chunk + 4, size - chunk - 8);
  return bytes;
}

// A shortened picture whose container was made to fit is never shown in part.
TEST(WebpDecode, NoShortenedDataIsAccepted) {
  for (const std::string_view name :
       {"webp_1x1.webp", "webp_lossy.webp", "webp_lossy_odd.webp", "webp_lossless.webp"}) {
    const Bytes whole = picture(name);
    constexpr size_t kChunk = 12;
    ASSERT_EQ(rgb_sha256(try_decode_image(cut_to_fit(whole, kChunk, whole.size()))),
              rgb_sha256(try_decode_image(whole)));
    // Both coders read a few bytes ahead, so that the last ones may not matter.
    const size_t needed = whole.size() - std::min<size_t>(16, whole.size() / 4);
    for (size_t size = kChunk + 18; size < needed; size += 2) {
      ASSERT_EQ(fault_of(try_decode_image(cut_to_fit(whole, kChunk, size))), "corrupt")
          << name << " " << size;
    }
  }
}

TEST(WebpDecode, BytesAfterThePictureDoNotMatter) {
  for (const std::string_view name : {"webp_lossy.webp", "webp_anim_alpha.webp"}) {
    Bytes bytes = picture(name);
    const std::string sha256 = rgb_sha256(try_decode_image(bytes));
    bytes.insert(bytes.end(), 100, std::byte{0x56});
    EXPECT_EQ(rgb_sha256(try_decode_image(bytes)), sha256) << name;
  }
}

TEST(WebpDecode, SurvivesDamage) {
  std::mt19937 random(20250214);
  int refused = 0;
  for (const std::string_view name :
       {"webp_lossy_odd.webp", "webp_lossless.webp", "webp_lossy_alpha.webp",
        "webp_lossless_alpha.webp", "webp_anim_alpha.webp", "webp_exif3.webp"}) {
    const Bytes whole = picture(name);
    for (int round = 0; round < 200; ++round) {
      Bytes damaged = whole;
      const size_t changes = 1 + random() % 4;
      for (size_t i = 0; i < changes; ++i) {
        const size_t range = i % 2 == 0 ? damaged.size() : std::min<size_t>(damaged.size(), 100);
        damaged[random() % range] = static_cast<std::byte>(random() & 0xffU);
      }
      DecodeOptions options = options_of(round % 2 == 0 ? "reference" : "recipe");
      options.limits.max_pixels = int64_t{1} << 20;
      refused += fault_of(try_decode_image(damaged, options)) != "accepted" ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(WebpDecode, StopsAtTheDeadline) {
  for (const std::string_view name : {"webp_lossy.webp", "webp_lossless_alpha.webp"}) {
    const Bytes bytes = picture(name);
    DecodeOptions options;
    options.deadline.at = Deadline::Clock::now();
    EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "timed_out") << name;
    const std::atomic<bool> cancel = true;
    options.deadline = {.at = Deadline::Clock::time_point::max(), .cancel = &cancel};
    EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "timed_out") << name;
  }
}

TEST(WebpDecode, LimitsAreCheckedAgainstTheCanvas) {
  const Bytes bytes =
      read_image_file(image_golden("files_extra/webp_anim_offset.webp"));  // 24 x 18
  DecodeOptions options;
  options.limits.max_side = 24;
  options.limits.max_pixels = int64_t{24} * 18;
  EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "accepted");
  --options.limits.max_pixels;
  EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "too_large");
  options.limits.max_pixels = int64_t{24} * 18;
  --options.limits.max_side;
  EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "too_large");
}

// libwebp's copy of the pixels and ours with alpha, and at least what the chunks may take.
TEST(WebpDecode, LimitsMemory) {
  const auto check = [](std::string_view name, int64_t bytes) {
    DecodeOptions options;
    options.limits.max_decoder_bytes = bytes;
    EXPECT_EQ(fault_of(try_decode_image(picture(name), options)), "accepted") << name;
    --options.limits.max_decoder_bytes;
    const DecodeResult result = try_decode_image(picture(name), options);
    ASSERT_EQ(fault_of(result), "too_large") << name;
    EXPECT_NE(std::get<Refusal>(result).detail.find("memory"), std::string::npos);
  };
  check("webp_lossless_alpha.webp", int64_t{4 + 4} * 90 * 70);
  check("webp_lossy_alpha.webp", int64_t{5 + 4} * 90 * 70);
  check("webp_anim_alpha.webp", int64_t{4} * 11130);
  check("webp_lossy.webp", int64_t{4} * 1788);
}

}  // namespace
}  // namespace tessera::intake
