// What the tests of several decoders share: golden cases of files_extra, and the rules that hold
// for every format.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "intake/decode.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {

using PictureBytes = std::vector<std::byte>;

inline PictureBytes extra_file(std::string_view name) {
  return read_image_file(test::golden_path(str_cat("image/files_extra/", name)));
}

inline PictureBytes as_picture(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// "accepted" or the name of the fault.
inline std::string fault_of(const DecodeResult& result) {
  const Refusal* refusal = std::get_if<Refusal>(&result);
  return refusal == nullptr ? "accepted" : std::string(fault_name(refusal->fault));
}

inline std::string detail_of(const DecodeResult& result) {
  const Refusal* refusal = std::get_if<Refusal>(&result);
  return refusal == nullptr ? "" : refusal->detail;
}

inline std::string image_golden(std::string_view name) {
  return test::golden_path(str_cat("image/", name));
}

inline DecodeOptions options_of(std::string_view policy) {
  DecodeOptions options;
  options.policy = image::find_policy(policy);
  return options;
}

// Of the pixels, or the name of the fault.
inline std::string rgb_sha256(const DecodeResult& result) {
  const DecodedImage* decoded = std::get_if<DecodedImage>(&result);
  return decoded == nullptr ? fault_of(result) : io::sha256_hex(decoded->rgb.bytes());
}

// Files of the manifest with this ending by policy `reference`: pixels, names and faults of Pillow.
// `check` sees every picture.
template <typename Check>
void check_manifest(std::string_view ending, std::string_view format, int expected_count,
                    const Check& check) {
  int accepted = 0;
  for (const io::Json& row : test::read_json_lines(image_golden("manifest.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (!file.ends_with(ending)) {
      continue;
    }
    const DecodeResult result =
        try_decode_image(read_image_file(image_golden(str_cat("files/", file))));
    if (test::text_of(row, "expect") == "refuse") {
      EXPECT_EQ(fault_of(result), test::text_of(row, "class")) << file;
      continue;
    }
    ASSERT_EQ(fault_of(result), "accepted") << file;
    const DecodedImage& got = std::get<DecodedImage>(result);
    EXPECT_EQ(got.format, format) << file;
    EXPECT_EQ(got.mode, test::text_of(row, "mode")) << file;
    EXPECT_EQ((std::vector<int64_t>{got.rgb.width(), got.rgb.height()}),
              test::integers_of(row, "size"))
        << file;
    EXPECT_EQ(rgb_sha256(result), test::text_of(row, "rgb_sha256")) << file;
    check(got, file);
    ++accepted;
  }
  EXPECT_EQ(accepted, expected_count);
}

// The same files by policy `recipe`: pixels of the package, or a refusal where it refuses.
inline void check_recipe(std::string_view ending, int expected_count) {
  int accepted = 0;
  for (const io::Json& row : test::read_json_lines(image_golden("recipe/recipe.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (!file.ends_with(ending) || test::text_of(row, "detail") != "high") {
      continue;
    }
    const DecodeResult result = try_decode_image(
        read_image_file(image_golden(str_cat("files/", file))), options_of("recipe"));
    if (row.find("error") != nullptr) {
      EXPECT_NE(fault_of(result), "accepted") << file;
      continue;
    }
    EXPECT_EQ(rgb_sha256(result), test::text_of(row, "rgb_sha256")) << file;
    ++accepted;
  }
  EXPECT_EQ(accepted, expected_count);
}

// Names of the cases of a list in files_extra that begin with `prefix` and are accepted.
inline std::vector<std::string> accepted_files(std::string_view list, std::string_view prefix) {
  std::vector<std::string> out;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path(str_cat("image/files_extra/", list)))) {
    const std::string file = test::text_of(row, "file");
    if (file.starts_with(prefix) && test::text_of(row, "expect") == "accept") {
      out.push_back(file);
    }
  }
  return out;
}

// Decodes all cases of a list that begin with `prefix`; every one must end as its row says.
inline void check_extra_files(std::string_view list, std::string_view prefix, int expected_count) {
  int count = 0;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path(str_cat("image/files_extra/", list)))) {
    const std::string file = test::text_of(row, "file");
    if (!file.starts_with(prefix)) {
      continue;
    }
    ++count;
    const DecodeResult result = try_decode_image(extra_file(file));
    if (test::text_of(row, "expect") == "refuse") {
      EXPECT_EQ(fault_of(result), test::text_of(row, "class")) << file << " " << detail_of(result);
      EXPECT_EQ(detail_of(result).find('\n'), std::string::npos) << file;
      continue;
    }
    ASSERT_EQ(fault_of(result), "accepted") << file << ": " << detail_of(result);
    const DecodedImage& got = std::get<DecodedImage>(result);
    EXPECT_EQ(got.format, test::text_of(row, "format")) << file;
    EXPECT_EQ(got.mode, test::text_of(row, "mode")) << file;
    EXPECT_EQ((std::vector<int64_t>{got.rgb.width(), got.rgb.height()}),
              test::integers_of(row, "size"))
        << file;
    EXPECT_EQ(io::sha256_hex(got.rgb.bytes()), test::text_of(row, "rgb_sha256")) << file;
    EXPECT_EQ(got.exif_orientation, 1) << file;
  }
  EXPECT_EQ(count, expected_count);
}

// A proper prefix is refused, or gives all pixels (only bytes after the last pixel are missing).
inline void check_prefixes(std::string_view name, const PictureBytes& whole) {
  const DecodeResult complete = try_decode_image(whole);
  ASSERT_EQ(fault_of(complete), "accepted") << name;
  const DecodedImage& expected = std::get<DecodedImage>(complete);
  for (size_t size = 18; size < whole.size(); ++size) {
    const DecodeResult result = try_decode_image(std::span(whole).first(size));
    const std::string fault = fault_of(result);
    if (fault == "accepted") {
      ASSERT_TRUE(
          std::ranges::equal(std::get<DecodedImage>(result).rgb.bytes(), expected.rgb.bytes()))
          << name << " cut to " << size << " of " << whole.size();
    } else {
      ASSERT_TRUE(fault == "truncated" || fault == "corrupt")
          << name << " cut to " << size << ": " << fault << ": " << detail_of(result);
    }
  }
}

// Damaged copies are refused or decoded to a size within the limits. How many were refused.
inline int count_refused_damage(const PictureBytes& whole, int rounds, uint32_t seed) {
  std::mt19937 random(seed);
  DecodeLimits limits;
  limits.max_pixels = int64_t{1} << 20;
  limits.max_decoder_bytes = int64_t{1} << 26;
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    PictureBytes damaged = whole;
    const size_t changes = 1 + random() % 4;
    for (size_t i = 0; i < changes; ++i) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random() & 0xffU);
    }
    const DecodeResult result = try_decode_image(damaged, {.limits = limits});
    if (const DecodedImage* decoded = std::get_if<DecodedImage>(&result)) {
      EXPECT_LE(decoded->rgb.width() * decoded->rgb.height(), limits.max_pixels);
    } else {
      ++refused;
    }
  }
  return refused;
}

// Somebody who no longer wants the picture, or a deadline that is over, ends the work.
inline void check_deadline(std::string_view name, const PictureBytes& whole) {
  const std::atomic<bool> cancelled = true;
  DecodeOptions options;
  options.deadline.cancel = &cancelled;
  EXPECT_EQ(fault_of(try_decode_image(whole, options)), "timed_out") << name;
  options.deadline = {.at = Deadline::Clock::now()};
  EXPECT_EQ(fault_of(try_decode_image(whole, options)), "timed_out") << name;
}

// The limits are those of the header, to the pixel.
inline void check_size_limits(std::string_view name, const PictureBytes& whole, image::Size size) {
  DecodeOptions options;
  options.limits.max_side = std::max(size.width, size.height);
  options.limits.max_pixels = size.width * size.height;
  EXPECT_EQ(fault_of(try_decode_image(whole, options)), "accepted") << name;
  --options.limits.max_pixels;
  EXPECT_EQ(fault_of(try_decode_image(whole, options)), "too_large") << name;
  ++options.limits.max_pixels;
  --options.limits.max_side;
  EXPECT_EQ(fault_of(try_decode_image(whole, options)), "too_large") << name;
}

}  // namespace tessera::intake
