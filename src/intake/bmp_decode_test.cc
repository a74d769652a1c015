// BMP against Pillow. Cases: scripts/oracle/image_extra_tiff_bmp_pnm.py.
#include "intake/bmp_decode.h"

#include "intake/picture_test.h"

namespace tessera::intake {
namespace {

constexpr std::string_view kList = "tiff_bmp_pnm.jsonl";

// A picture of 32 bits whose fourth byte is alpha.
PictureBytes with_alpha() { return extra_file("bmp_32_masks_ff0000_ff00_ff000000.bmp"); }

const DecodedImage& accepted(const DecodeResult& result) { return std::get<DecodedImage>(result); }

TEST(BmpDecode, ExtraFilesEqualPillow) { check_extra_files(kList, "bmp_", 71); }

TEST(BmpDecode, NoPrefixIsAccepted) {
  for (const std::string& name : accepted_files(kList, "bmp_")) {
    check_prefixes(name, extra_file(name));
  }
}

TEST(BmpDecode, SurvivesDamage) {
  int refused = 0;
  uint32_t seed = 1;
  for (const std::string& name : accepted_files(kList, "bmp_")) {
    refused += count_refused_damage(extra_file(name), 100, seed++);
  }
  EXPECT_GT(refused, 500);
}

TEST(BmpDecode, StopsWhenTheDeadlineIsOver) {
  for (const std::string_view name : {"bmp_24.bmp", "bmp_palette4.bmp", "bmp_rle8_plain.bmp"}) {
    check_deadline(name, extra_file(name));
  }
}

TEST(BmpDecode, LimitsAreCheckedAgainstTheHeader) {
  check_size_limits("bmp_24.bmp", extra_file("bmp_24.bmp"), {7, 3});
  check_size_limits("bmp_rle8_plain.bmp", extra_file("bmp_rle8_plain.bmp"), {7, 4});
}

TEST(BmpDecode, AlphaIsDroppedOrBlendedByThePolicy) {
  const DecodeResult dropped = try_decode_image(with_alpha());
  ASSERT_EQ(fault_of(dropped), "accepted");
  EXPECT_TRUE(accepted(dropped).has_transparency);
  EXPECT_EQ(accepted(dropped).mode, "RGBA");
  const DecodeResult blended =
      try_decode_image(with_alpha(), {.policy = image::find_policy("hf-fast")});
  ASSERT_EQ(fault_of(blended), "accepted");
  EXPECT_FALSE(std::ranges::equal(accepted(blended).rgb.bytes(), accepted(dropped).rgb.bytes()));
  const DecodeResult opaque = try_decode_image(extra_file("bmp_32.bmp"));
  ASSERT_EQ(fault_of(opaque), "accepted");
  EXPECT_FALSE(accepted(opaque).has_transparency);
}

TEST(BmpDecode, RefusesMoreThan256Colours) {
  PictureBytes bytes = extra_file("bmp_palette8.bmp");
  constexpr size_t kCountPlace = 46;
  constexpr size_t kPalettePlace = 54;
  bytes[kCountPlace] = std::byte{1};  // 257
  bytes[kCountPlace + 1] = std::byte{1};
  bytes.insert(bytes.begin() + kPalettePlace, size_t{4} * 257, std::byte{9});
  const DecodeResult result = try_decode_image(bytes);
  EXPECT_EQ(fault_of(result), "corrupt");
  EXPECT_EQ(detail_of(result),
            "BMP: a palette of 257 colours, expected at most 256; re-encode the picture");
}

TEST(BmpDecode, RefusalsNameWhatWasFound) {
  EXPECT_EQ(detail_of(try_decode_image(extra_file("bmp_refuse_compression5.bmp"))),
            "BMP: compression PNG is not read; convert to JPEG or PNG");
  EXPECT_EQ(detail_of(try_decode_image(extra_file("bmp_refuse_16_masks_444.bmp"))),
            "BMP: bit masks f00, f0, f, 0 of 16 bits are not read; convert to PNG");
  EXPECT_EQ(detail_of(try_decode_image(extra_file("bmp_refuse_rle8_cut.bmp"))),
            "BMP: the runs end 7 pixels before the picture; send the whole file");
}

TEST(BmpDecode, BytesAfterThePictureDoNotMatter) {
  for (const std::string& name : accepted_files(kList, "bmp_")) {
    PictureBytes bytes = extra_file(name);
    const DecodeResult plain = try_decode_image(bytes);
    bytes.insert(bytes.end(), 5, std::byte{'x'});
    const DecodeResult longer = try_decode_image(bytes);
    ASSERT_EQ(fault_of(longer), "accepted") << name;
    EXPECT_TRUE(std::ranges::equal(accepted(plain).rgb.bytes(), accepted(longer).rgb.bytes()))
        << name;
  }
}

}  // namespace
}  // namespace tessera::intake
