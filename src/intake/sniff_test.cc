#include "intake/sniff.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "intake/decode.h"
#include "intake/multi_picture.h"

namespace tessera::intake {
namespace {

using namespace std::string_view_literals;

Sniffed sniff_text(std::string_view text) {
  return sniff(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(Sniff, NamesWhatItSees) {
  struct Case {
    std::string_view bytes;
    ContentKind kind;
    std::string_view name;
  };
  constexpr ContentKind kPicture = ContentKind::other_picture;
  constexpr ContentKind kOther = ContentKind::no_picture;
  const Case cases[] = {
      {"\xff\xd8\xff\xe0"sv, ContentKind::jpeg, "JPEG"},
      {"\x89PNG\r\n\x1a\n"sv, ContentKind::png, "PNG"},
      {"GIF89a\1\0\1\0"sv, ContentKind::gif, "GIF"},
      {"RIFF\x24\0\0\0WEBPVP8 "sv, ContentKind::webp, "WebP"},
      {"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"sv, ContentKind::bmp, "BMP"},
      {"II*\0\x08\0\0\0"sv, ContentKind::tiff, "TIFF"},
      {"MM\0*\0\0\0\x08"sv, ContentKind::tiff, "TIFF"},
      {"\0\0\1\0\1\0\x20\x20\0\0"sv, kPicture, "ICO"},
      {"\0\0\2\0\0\0\0\0\0\0\0\0\x28\0\x1e\0\x18\0 "sv, kPicture, "TGA"},
      {"P6\n3 2\n255\n"sv, ContentKind::pnm, "PNM"},
      {"P5 # grey\n"sv, ContentKind::pnm, "PNM"},
      {"\0\0\0\x1c"
       "ftypavif"sv,
       kPicture, "AVIF"},
      {"\0\0\0\x18"
       "ftypheic"sv,
       kPicture, "HEIC"},
      {"\0\0\0\x18"
       "ftypisom"sv,
       kOther, "a video (MP4 or QuickTime)"},
      {"RIFF\x24\0\0\0WAVEfmt "sv, kOther, "WAVE audio"},
      {"%PDF-1.7\n"sv, kOther, "a PDF document"},
      {"PK\3\4\x14\0"sv, kOther, "a ZIP archive"},
      {"  <!DOCTYPE HTML><p>no</p>"sv, kOther, "an HTML page"},
      {"\xef\xbb\xbf<html>"sv, kOther, "an HTML page"},
      {"<?xml version='1.0'?><svg/>"sv, kOther, "an SVG drawing"},
      {"<?xml version='1.0'?><a/>"sv, kOther, "XML"},
      {"version https://git-lfs.github.com/spec/v1\n"sv, kOther,
       "a Git LFS pointer (run `git lfs pull`)"},
      {"data:image/png;base64,iVBORw0KGgo="sv, kOther, "a data: URL as text"},
      {"BMW is a maker of cars and BM is no picture"sv, kOther, "text"},
      {"P6 is not a portable pixmap"sv, ContentKind::pnm, "PNM"},
      {"一只猫坐在窗台上"sv, kOther, "text"},
      {"\xff"sv, kOther, "nothing known"},
      {""sv, kOther, "no bytes"},
  };
  for (const Case& c : cases) {
    const Sniffed got = sniff_text(c.bytes);
    EXPECT_EQ(got.name, c.name);
    EXPECT_EQ(got.kind, c.kind) << c.name;
  }
}

TEST(Sniff, RandomBytesAreNoPicture) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(900, '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random() & 0xffU);
    }
    bytes[0] = static_cast<char>(0x9b);  // no two-byte signature begins like this
    EXPECT_EQ(sniff_text(bytes).kind, ContentKind::no_picture) << round;
  }
}

// A multi-picture index (CIPA DC-007) with `pictures` entries, little-endian.
std::string index_of(char pictures, char entry_bytes) {
  std::string index("II*\0\x08\0\0\0\x02\0", 10);
  index += std::string("\x01\xb0\x04\0\x01\0\0\0", 8) + pictures + std::string("\0\0\0", 3);
  index += std::string("\x02\xb0\x07\0", 4) + entry_bytes + std::string("\0\0\0\x22\0\0\0", 7);
  return index + std::string(static_cast<size_t>(entry_bytes), '\1');
}

TEST(MultiPicture, NeedsAWellFormedIndexOfSeveral) {
  const auto several = [](std::string_view data) {
    return names_several_pictures(std::as_bytes(std::span(data.data(), data.size())));
  };
  EXPECT_TRUE(several(index_of(2, 32)));
  EXPECT_FALSE(several(index_of(1, 16)));
  EXPECT_FALSE(several(index_of(3, 32)));  // more pictures than entries
  const std::string whole = index_of(2, 32);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(several(std::string_view(whole).substr(0, size))) << size;
  }
}

}  // namespace
}  // namespace tessera::intake
