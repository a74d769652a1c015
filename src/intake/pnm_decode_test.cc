// PBM, PGM and PPM against Pillow. Cases: scripts/oracle/image_extra_tiff_bmp_pnm.py.
#include "intake/pnm_decode.h"

#include "intake/picture_test.h"

namespace tessera::intake {
namespace {

constexpr std::string_view kList = "tiff_bmp_pnm.jsonl";

DecodeResult decode(std::string_view text, const DecodeOptions& options = {}) {
  return try_decode_image(as_picture(text), options);
}

std::string pixels_of(const DecodeResult& result) {
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    return refusal->detail;
  }
  std::string out;
  for (const std::byte byte : std::get<DecodedImage>(result).rgb.bytes()) {
    out += str_cat(out.empty() ? "" : " ", std::to_integer<int>(byte));
  }
  return out;
}

TEST(PnmDecode, ExtraFilesEqualPillow) { check_extra_files(kList, "pnm_", 54); }

// Numbers of text may be cut and still be numbers, so plain pictures are checked by
// RefusesTextThatEndsEarly.
TEST(PnmDecode, NoPrefixIsAccepted) {
  for (const std::string& name : accepted_files(kList, "pnm_")) {
    if (name.starts_with("pnm_p4") || name.starts_with("pnm_p5") || name.starts_with("pnm_p6")) {
      check_prefixes(name, extra_file(name));
    }
  }
}

TEST(PnmDecode, RefusesTextThatEndsEarly) {
  EXPECT_EQ(fault_of(decode("P2 3 1 255\n1 2 3")), "accepted");
  EXPECT_EQ(fault_of(decode("P2 3 1 255\n1 2 ")), "truncated");
  EXPECT_EQ(fault_of(decode("P2 3 1 255\n1   2   ")), "truncated");
  EXPECT_EQ(fault_of(decode("P1 3 1\n10")), "truncated");
  EXPECT_EQ(fault_of(decode("P1 3 1\n10  #1")), "truncated");
  EXPECT_EQ(fault_of(decode("P3 1 1 255\n1 2")), "truncated");
}

TEST(PnmDecode, SurvivesDamage) {
  int refused = 0;
  uint32_t seed = 1;
  for (const std::string& name : accepted_files(kList, "pnm_")) {
    refused += count_refused_damage(extra_file(name), 100, seed++);
  }
  EXPECT_GT(refused, 500);
}

TEST(PnmDecode, StopsWhenTheDeadlineIsOver) {
  for (const std::string_view name : {"pnm_p1.pbm", "pnm_p5_255.pgm", "pnm_p3_100.ppm"}) {
    check_deadline(name, extra_file(name));
  }
}

TEST(PnmDecode, LimitsAreCheckedAgainstTheHeader) {
  check_size_limits("pnm_p6_255.ppm", extra_file("pnm_p6_255.ppm"), {7, 3});
  check_size_limits("pnm_p1.pbm", extra_file("pnm_p1.pbm"), {7, 3});
}

// Grey of 16 bits is what policies differ about; colour is rounded to 8 bits in either.
TEST(PnmDecode, SixteenBitsFollowThePolicy) {
  const DecodeOptions scaled{.policy = image::find_policy("hf-fast")};
  const std::string_view grey = "P2 2 1 65535\n257 51400";
  EXPECT_EQ(pixels_of(decode(grey)), "255 255 255 255 255 255");
  EXPECT_EQ(pixels_of(decode(grey, scaled)), "1 1 1 200 200 200");
  EXPECT_TRUE(std::get<DecodedImage>(decode(grey)).has_sixteen_bits);
  const std::string_view colour = "P3 1 1 65535\n257 51400 51536";
  EXPECT_EQ(pixels_of(decode(colour)), "1 200 201");
  EXPECT_EQ(pixels_of(decode(colour, scaled)), "1 200 201");
  EXPECT_FALSE(std::get<DecodedImage>(decode("P3 1 1 255\n1 2 3")).has_sixteen_bits);
}

// round(v * 255 / m), halves to even: 1 of 2 is 127.5.
TEST(PnmDecode, ValuesAreSpreadAndRounded) {
  EXPECT_EQ(pixels_of(decode("P2 3 1 2\n0 1 2")), "0 0 0 128 128 128 255 255 255");
  EXPECT_EQ(pixels_of(decode("P3 1 1 100\n21 50 100")), "54 128 255");
  EXPECT_EQ(pixels_of(decode("P6 1 1 100 \x15\x32\xff")), "54 128 255");  // more than the highest
}

TEST(PnmDecode, CommentsAreTakenOutAsAWhole) {
  EXPECT_EQ(pixels_of(decode("P2#x\n1#y\r 1 #z\n255#\n\n7")), "7 7 7");
  EXPECT_EQ(pixels_of(decode("P2 1 1 255\n1#\n2")), "12 12 12");
  EXPECT_EQ(pixels_of(decode("P2 1 1 255\n7#")), "7 7 7");
}

TEST(PnmDecode, OnlyTheFirstPictureIsRead) {
  EXPECT_EQ(pixels_of(decode("P6 1 1 255\nabcP6 1 1 255\ndef")), "97 98 99");
  EXPECT_EQ(pixels_of(decode("P1 1 1\n0\nP1 1 1\n1\n")), "255 255 255");
}

TEST(PnmDecode, RefusalsNameWhatWasFound) {
  EXPECT_EQ(detail_of(decode("P7\nWIDTH 1\n")),
            "PNM: PAM pictures (P7) are not read; convert to PNG");
  EXPECT_EQ(detail_of(decode("P5 2 2 255\nabc")),
            "PNM: 3 bytes of pixels, expected 4; send the whole file");
  EXPECT_EQ(detail_of(decode("P5 2 2 65536\nabcd")),
            "PNM: the highest value is 65536, expected 1 to 65535; re-encode the picture");
}

}  // namespace
}  // namespace tessera::intake
