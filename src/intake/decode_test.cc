// Decoders against Pillow. Golden files: tests/golden/image/README.md.
#include "intake/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "base/str_cat.h"
#include "intake/picture_test.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

using Bytes = std::vector<std::byte>;

std::string picture_path(std::string_view name) {
  return test::golden_path(str_cat("image/files/", name));
}

Bytes picture(std::string_view name) { return read_image_file(picture_path(name)); }

void append(Bytes& to, std::string_view text) {
  for (const char c : text) {
    to.push_back(static_cast<std::byte>(c));
  }
}

class Manifest : public testing::Test {
 protected:
  const std::vector<io::Json> rows_ =
      test::read_json_lines(test::golden_path("image/manifest.jsonl"));
};

TEST_F(Manifest, EveryFileIsDecodedOrRefusedByItsRule) {
  int accepted = 0;
  int refused = 0;
  for (const io::Json& row : rows_) {
    const std::string file = test::text_of(row, "file");
    const std::string expect = test::text_of(row, "expect");
    const DecodeResult result = try_decode_image(picture(file));
    if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
      EXPECT_NE(expect, "accept") << file << ": " << refusal->detail;
      EXPECT_EQ(fault_name(refusal->fault), test::text_of(row, "class"))
          << file << ": " << refusal->detail;
      EXPECT_EQ(refusal->detail.find('\n'), std::string::npos) << file;
      ++refused;
      continue;
    }
    EXPECT_NE(expect, "refuse") << file;
    const DecodedImage& got = std::get<DecodedImage>(result);
    EXPECT_EQ(got.format, test::text_of(row, "format")) << file;
    EXPECT_EQ(got.mode, test::text_of(row, "mode")) << file;
    EXPECT_EQ((std::vector<int64_t>{got.rgb.width(), got.rgb.height()}),
              test::integers_of(row, "size"))
        << file;
    EXPECT_EQ(io::sha256_hex(got.rgb.bytes()), test::text_of(row, "rgb_sha256")) << file;
    ++accepted;
  }
  EXPECT_GE(accepted, 146);  // all rows with `accept`
  EXPECT_EQ(accepted + refused, 224);
}

// Option --exif-rotate: as Pillow's ImageOps.exif_transpose().
TEST_F(Manifest, PicturesAreTurnedByExif) {
  DecodeOptions options;
  options.policy.applies_exif = true;
  int turned = 0;
  for (const io::Json& row : rows_) {
    const io::Json* want = row.find("exif_rotated");
    if (want == nullptr || want->is_null()) {
      continue;
    }
    const std::string file = test::text_of(row, "file");
    const DecodedImage got = decode_image(picture(file), file, options);
    EXPECT_EQ((std::vector<int64_t>{got.rgb.width(), got.rgb.height()}),
              test::integers_of(*want, "size"))
        << file;
    EXPECT_EQ(io::sha256_hex(got.rgb.bytes()), test::text_of(*want, "rgb_sha256")) << file;
    ++turned;
  }
  EXPECT_GE(turned, 9);
}

// DeepSeek's production front end: pixels after 8 bits and alpha, or its refusal.
TEST(Recipe, EveryFileIsDecodedOrRefused) {
  const DecodeOptions options{.policy = image::find_policy("recipe")};
  int accepted = 0;
  for (const io::Json& row :
       test::read_json_lines(test::golden_path("image/recipe/recipe.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    const DecodeResult result = try_decode_image(picture(file), options);
    if (const DecodedImage* got = std::get_if<DecodedImage>(&result)) {
      if (file == "bad_jpeg_segment_len.jpg") {
        continue;  // a length that libjpeg forgives and OpenCV does not
      }
      if (row.find("error") == nullptr) {
        EXPECT_EQ(io::sha256_hex(got->rgb.bytes()), test::text_of(row, "rgb_sha256")) << file;
        ++accepted;
      } else {
        ADD_FAILURE() << file << " is accepted";
      }
    } else if (row.find("error") == nullptr && file != "bad_png_text_bomb.png") {
      ADD_FAILURE() << file << ": " << std::get<Refusal>(result).detail;
    }
  }
  EXPECT_GE(accepted, 100);
}

// A picture that ends early is never shown in part: no proper prefix decodes, apart from one that
// only lacks bytes after the end marker.
TEST(Decode, NoPrefixIsAccepted) {
  for (const std::string_view name :
       {"png_pal_trns_i.png", "png_rgb_trns.png", "png_1x400.png", "jpeg_7x3_420.jpg",
        "jpeg_grey_prog.jpg", "jpeg_arith.jpg", "jpeg_restart_mcu.jpg"}) {
    const Bytes whole = picture(name);
    ASSERT_EQ(fault_of(try_decode_image(whole)), "accepted") << name;
    const size_t step = whole.size() < 1000 ? 1 : 13;
    for (size_t size = 12; size < whole.size(); size += step) {
      const std::string fault = fault_of(try_decode_image(std::span(whole).first(size)));
      ASSERT_TRUE(fault == "truncated" || fault == "corrupt")
          << name << " " << size << " " << fault;
    }
  }
}

// Damage ends in a refusal or a picture of a size within the limits, never in a crash.
TEST(Decode, SurvivesDamage) {
  std::mt19937 random(20250214);
  DecodeLimits limits;
  limits.max_pixels = int64_t{1} << 22;
  int refused = 0;
  for (const std::string_view name :
       {"png_pal4.png", "png_rgb16_i.png", "apng_3frames.png", "jpeg_base_420.jpg",
        "jpeg_prog_420.jpg", "jpeg_arith_prog.jpg", "jpeg_ycck_adobe2.jpg", "jpeg_mpo.jpg"}) {
    const Bytes whole = picture(name);
    for (int round = 0; round < 150; ++round) {
      Bytes damaged = whole;
      const size_t changes = 1 + random() % 4;
      for (size_t i = 0; i < changes; ++i) {
        // Half of the changes hit the header, where they matter most.
        const size_t range = i % 2 == 0 ? damaged.size() : std::min<size_t>(damaged.size(), 700);
        damaged[random() % range] = static_cast<std::byte>(random() & 0xffU);
      }
      refused += fault_of(try_decode_image(damaged, {.limits = limits})) != "accepted" ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Decode, LimitsAreCheckedAgainstTheHeader) {
  for (const std::string_view name : {"png_rgb8.png", "jpeg_base_444.jpg"}) {
    const Bytes bytes = picture(name);
    const DecodeResult whole = try_decode_image(bytes);
    const image::Size size = std::get<DecodedImage>(whole).rgb.size();
    DecodeLimits limits;
    limits.max_pixels = size.width * size.height;
    limits.max_side = std::max(size.width, size.height);
    limits.max_bytes = static_cast<int64_t>(bytes.size());
    EXPECT_EQ(fault_of(try_decode_image(bytes, {.limits = limits})), "accepted");
    DecodeLimits fewer = limits;
    --fewer.max_pixels;
    EXPECT_EQ(fault_of(try_decode_image(bytes, {.limits = fewer})), "too_large");
    fewer = limits;
    --fewer.max_side;
    EXPECT_EQ(fault_of(try_decode_image(bytes, {.limits = fewer})), "too_large");
    fewer = limits;
    --fewer.max_bytes;
    EXPECT_EQ(fault_of(try_decode_image(bytes, {.limits = fewer})), "too_large");
  }
  DecodeLimits little_memory;
  little_memory.max_decoder_bytes = 20000;
  EXPECT_EQ(fault_of(try_decode_image(picture("jpeg_prog_420.jpg"), {.limits = little_memory})),
            "too_large");
}

// Each scan of a progressive file walks the whole picture: thousands of them are an attack.
TEST(Decode, RefusesEndlessScans) {
  const Bytes whole = picture("jpeg_prog_420.jpg");
  const auto byte = [&whole](size_t i) { return std::to_integer<int>(whole[i]); };
  size_t begin = 0;  // the first scan: it may be repeated, because it depends on no other scan
  while (byte(begin) != 0xff || byte(begin + 1) != 0xda) {
    ++begin;
  }
  size_t end = begin + 2;
  while (byte(end) != 0xff || byte(end + 1) == 0) {
    ++end;
  }
  const auto at = [&whole](size_t i) { return whole.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto with_copies = [&](int copies) {
    Bytes out(at(0), at(end));
    for (int i = 0; i < copies; ++i) {
      out.insert(out.end(), at(begin), at(end));
    }
    out.insert(out.end(), at(end), whole.end());
    return out;
  };
  EXPECT_EQ(fault_of(try_decode_image(with_copies(3))), "accepted");
  const Bytes many = with_copies(600);
  const DecodeResult result = try_decode_image(many);
  ASSERT_EQ(fault_of(result), "corrupt");
  EXPECT_NE(std::get<Refusal>(result).detail.find("500 scans"), std::string::npos);
}

TEST(Decode, BytesAfterThePictureDoNotMatter) {
  for (const std::string_view name : {"png_rgb8.png", "jpeg_base_444.jpg"}) {
    Bytes bytes = picture(name);
    const DecodeResult plain = try_decode_image(bytes);
    append(bytes, "something else");
    const DecodeResult longer = try_decode_image(bytes);
    ASSERT_EQ(fault_of(longer), "accepted");
    EXPECT_EQ(io::sha256_hex(std::get<DecodedImage>(plain).rgb.bytes()),
              io::sha256_hex(std::get<DecodedImage>(longer).rgb.bytes()));
  }
}

TEST(Decode, ErrorsNameThePictureAndTheFault) {
  const auto message_of = [](const auto& call) -> std::pair<ErrorCode, std::string> {
    try {
      call();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {ErrorCode::cancelled, "nothing was thrown"};
  };
  auto [code, message] = message_of([] { decode_image(picture("bad_html.png"), "猫.png"); });
  EXPECT_EQ(code, ErrorCode::bad_request);
  EXPECT_EQ(message,
            "猫.png: unrecognised: this is no picture, the bytes look like an HTML page; "
            "send a JPEG, PNG, WebP, GIF, BMP, TIFF or PNM picture");
  std::tie(code, message) = message_of([] { decode_image(picture("other_avif.avif"), "a"); });
  EXPECT_EQ(code, ErrorCode::unsupported);
  EXPECT_EQ(message, "a: unsupported: AVIF pictures are not read; convert to JPEG or PNG");
  std::tie(code, message) = message_of([] { read_image_file("/no/such/picture.png"); });
  EXPECT_EQ(code, ErrorCode::bad_file);
  EXPECT_NE(message.find("/no/such/picture.png"), std::string::npos);
  std::tie(code, message) = message_of([] { read_image_file(TESSERA_SOURCE_DIR); });
  EXPECT_EQ(code, ErrorCode::bad_file);
  EXPECT_NE(message.find("a folder"), std::string::npos) << message;
}

// A folder that others may name pictures of: nothing leads out of it.
TEST(ReadImageFile, BelowAFolderOnly) {
  namespace fs = std::filesystem;
  const fs::path top = fs::path(testing::TempDir()) / "media_root_test";
  fs::remove_all(top);
  fs::create_directories(top / "root" / "inner");
  std::ofstream(top / "root" / "inner" / "a.png") << "inside";
  std::ofstream(top / "secret.png") << "outside";
  fs::create_symlink("inner/a.png", top / "root" / "link.png");
  fs::create_symlink("../secret.png", top / "root" / "out.png");
  fs::create_symlink("..", top / "root" / "up");
  const std::string root = (top / "root").string();
  for (const char* inside : {"inner/a.png", "./inner/a.png", "inner/../inner/a.png", "link.png"}) {
    EXPECT_EQ(read_image_file(inside, {}, root).size(), 6U) << inside;
  }
  for (const std::string& outside :
       {std::string("../secret.png"), std::string("out.png"), std::string("up/secret.png"),
        std::string("inner/../../secret.png"), (top / "secret.png").string(),
        (top / "root" / "inner" / "a.png").string(), std::string("none.png"), std::string("")}) {
    EXPECT_THROW(read_image_file(outside, {}, root), Error) << outside;
  }
  fs::remove_all(top);
}

}  // namespace
}  // namespace tessera::intake
