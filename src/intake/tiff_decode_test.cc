// TIFF against Pillow. Cases: scripts/oracle/image_extra_tiff_bmp_pnm.py.
#include "intake/tiff_decode.h"

#include <thread>

#include "intake/picture_test.h"

namespace tessera::intake {
namespace {

constexpr std::string_view kList = "tiff_bmp_pnm.jsonl";

const DecodedImage& accepted(const DecodeResult& result) { return std::get<DecodedImage>(result); }

DecodeResult decode(std::string_view name, const DecodeOptions& options = {}) {
  return try_decode_image(extra_file(name), options);
}

// Where the entry of a tag begins in a little-endian file that has it.
size_t entry_place(const PictureBytes& bytes, size_t tag) {
  const auto word = [&bytes](size_t at) {
    return std::to_integer<size_t>(bytes[at]) | std::to_integer<size_t>(bytes[at + 1]) << 8;
  };
  size_t at = word(4) + 2;
  while (word(at) != tag) {
    at += 12;
  }
  return at;
}

TEST(TiffDecode, ExtraFilesEqualPillow) { check_extra_files(kList, "tiff_", 198); }

TEST(TiffDecode, NoPrefixIsAccepted) {
  for (const std::string& name : accepted_files(kList, "tiff_")) {
    check_prefixes(name, extra_file(name));
  }
}

TEST(TiffDecode, SurvivesDamage) {
  int refused = 0;
  uint32_t seed = 1;
  for (const std::string& name : accepted_files(kList, "tiff_")) {
    refused += count_refused_damage(extra_file(name), 60, seed++);
  }
  EXPECT_GT(refused, 1000);
}

TEST(TiffDecode, StopsWhenTheDeadlineIsOver) {
  for (const std::string_view name :
       {"tiff_rgb8.tif", "tiff_rgb8_packbits.tif", "tiff_rgb8_planar_lzw.tif",
        "tiff_tiles_grey1.tif", "tiff_jpeg_ycbcr_22.tif"}) {
    check_deadline(name, extra_file(name));
  }
}

TEST(TiffDecode, LimitsAreCheckedAgainstTheHeader) {
  check_size_limits("tiff_rgb8.tif", extra_file("tiff_rgb8.tif"), {7, 3});
  check_size_limits("tiff_orientation6.tif", extra_file("tiff_orientation6.tif"), {3, 2});
  DecodeOptions little_memory;
  little_memory.limits.max_decoder_bytes = 100;
  EXPECT_EQ(fault_of(decode("tiff_tiles_grey8_lzw.tif", little_memory)), "too_large");
  little_memory.limits.max_decoder_bytes = 600;  // libtiff's own tables
  EXPECT_EQ(fault_of(decode("tiff_rgb8_lzw.tif", little_memory)), "too_large");
}

// Orientation counts whether or not the policy rotates by EXIF, and only once.
TEST(TiffDecode, OrientationIsAppliedUnderEveryPolicy) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = str_cat("tiff_orientation", orientation, ".tif");
    const DecodeResult reference = decode(name);
    const DecodeResult rotating = decode(name, {.policy = image::find_policy("hf-slow")});
    ASSERT_EQ(fault_of(reference), "accepted");
    ASSERT_EQ(fault_of(rotating), "accepted");
    EXPECT_EQ(accepted(reference).rgb.width(), orientation < 5 ? 3 : 2);
    EXPECT_TRUE(
        std::ranges::equal(accepted(reference).rgb.bytes(), accepted(rotating).rgb.bytes()));
  }
}

TEST(TiffDecode, SixteenBitsFollowThePolicy) {
  const DecodeOptions scaled{.policy = image::find_policy("hf-fast")};
  const DecodeResult words = decode("tiff_grey16.tif");
  const DecodeResult bytes = decode("tiff_grey8.tif");
  EXPECT_TRUE(accepted(words).has_sixteen_bits);
  EXPECT_FALSE(accepted(bytes).has_sixteen_bits);
  for (const std::string_view name : {"tiff_grey16.tif", "tiff_rgb16.tif", "tiff_rgba16.tif"}) {
    EXPECT_FALSE(std::ranges::equal(accepted(decode(name)).rgb.bytes(),
                                    accepted(decode(name, scaled)).rgb.bytes()))
        << name;
  }
  // No rule for these: as Pillow under every policy.
  for (const std::string_view name : {"tiff_int16.tif", "tiff_int32.tif", "tiff_uint32.tif",
                                      "tiff_real32.tif", "tiff_cmyk16.tif"}) {
    EXPECT_TRUE(std::ranges::equal(accepted(decode(name)).rgb.bytes(),
                                   accepted(decode(name, scaled)).rgb.bytes()))
        << name;
  }
}

TEST(TiffDecode, AlphaIsDroppedOrBlendedByThePolicy) {
  const DecodeOptions blends{.policy = image::find_policy("hf-fast")};
  for (const std::string_view name :
       {"tiff_rgba8.tif", "tiff_rgb8_extra1.tif", "tiff_rgb8_extra2_planar_lzw.tif",
        "tiff_grey8_extra2.tif", "tiff_palette8_extra2.tif"}) {
    const DecodeResult dropped = decode(name);
    ASSERT_EQ(fault_of(dropped), "accepted") << name;
    EXPECT_TRUE(accepted(dropped).has_transparency) << name;
    EXPECT_FALSE(std::ranges::equal(accepted(dropped).rgb.bytes(),
                                    accepted(decode(name, blends)).rgb.bytes()))
        << name;
  }
  EXPECT_FALSE(accepted(decode("tiff_rgb8_extra0.tif")).has_transparency);
}

TEST(TiffDecode, RefusalsNameWhatWasFound) {
  EXPECT_EQ(detail_of(decode("tiff_refuse_codec6.tif")),
            "TIFF: compression old-style JPEG is not read; convert to PNG");
  EXPECT_EQ(detail_of(decode("tiff_refuse_lab.tif")),
            "TIFF: photometric interpretation 8 (Lab) is not read; convert to PNG");
  EXPECT_EQ(detail_of(decode("tiff_real32_lzw_mm.tif")),
            "TIFF: black-is-zero grey of 1 sample of 32 bits (real, extra [], big-endian, "
            "compression 5) is not read; convert to PNG");
  EXPECT_EQ(detail_of(decode("tiff_refuse_tile_bomb.tif")),
            "TIFF: tiles of 65536 x 65536 pixels for a picture of 7 x 3; send a smaller picture");
}

// What readers would not understand alike: a tag that comes twice, a picture of two layers.
TEST(TiffDecode, RefusesContradictingTags) {
  constexpr size_t kCompression = 259;
  constexpr size_t kSamplesPerPixel = 277;
  constexpr size_t kImageDepth = 32997;
  for (const size_t tag : {kCompression, kImageDepth}) {
    PictureBytes bytes = extra_file("tiff_grey4_lzw.tif");
    const size_t at = entry_place(bytes, kSamplesPerPixel);
    bytes[at] = static_cast<std::byte>(tag & 0xffU);
    bytes[at + 1] = static_cast<std::byte>(tag >> 8);
    bytes[at + 8] = std::byte{2};
    const DecodeResult result = try_decode_image(bytes);
    EXPECT_EQ(fault_of(result), "corrupt");
    EXPECT_NE(detail_of(result).find(tag == kImageDepth ? "contradicting tags" : "259 comes twice"),
              std::string::npos)
        << detail_of(result);
  }
}

// Without byte counts nobody knows where compressed data ends.
TEST(TiffDecode, RefusesCompressedDataWithoutByteCounts) {
  constexpr size_t kStripByteCounts = 279;
  constexpr size_t kUnknown = 311;
  for (const auto& [name, fault] :
       {std::pair("tiff_jpeg_grey.tif", "corrupt"), std::pair("tiff_grey8.tif", "accepted")}) {
    PictureBytes bytes = extra_file(name);
    const size_t at = entry_place(bytes, kStripByteCounts);
    bytes[at] = std::byte{kUnknown & 0xffU};
    bytes[at + 1] = std::byte{kUnknown >> 8};
    EXPECT_EQ(fault_of(try_decode_image(bytes)), fault) << name;
  }
}

// Fax rows that do not come are not invented.
TEST(TiffDecode, RefusesFaxDataThatEndsEarly) {
  for (const std::string_view name : {"tiff_group4_white.tif", "tiff_group3_white.tif"}) {
    PictureBytes bytes = extra_file(name);
    for (size_t i = 10; i < 20; ++i) {
      bytes[i] = std::byte{0};
    }
    const DecodeResult result = try_decode_image(bytes);
    EXPECT_TRUE(fault_of(result) == "truncated" || fault_of(result) == "corrupt") << name;
    EXPECT_NE(detail_of(result).find("Fax"), std::string::npos) << detail_of(result);
  }
}

TEST(TiffDecode, BytesAfterThePictureDoNotMatter) {
  for (const std::string& name : accepted_files(kList, "tiff_")) {
    PictureBytes bytes = extra_file(name);
    const DecodeResult plain = try_decode_image(bytes);
    bytes.insert(bytes.end(), 5, std::byte{'x'});
    const DecodeResult longer = try_decode_image(bytes);
    ASSERT_EQ(fault_of(longer), "accepted") << name;
    EXPECT_TRUE(std::ranges::equal(accepted(plain).rgb.bytes(), accepted(longer).rgb.bytes()))
        << name;
  }
}

// libtiff's messages go to the reader that they belong to.
TEST(TiffDecode, ThreadsDoNotShareMessages) {
  const PictureBytes good = extra_file("tiff_rgb8_lzw.tif");
  const PictureBytes bad = extra_file("tiff_refuse_lzw_short.tif");
  std::atomic<int> wrong = 0;
  const auto work = [&wrong](const PictureBytes& bytes, std::string_view expected) {
    for (int i = 0; i < 200; ++i) {
      wrong += fault_of(try_decode_image(bytes)) == expected ? 0 : 1;
    }
  };
  std::thread other([&] { work(bad, "corrupt"); });
  work(good, "accepted");
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera::intake
