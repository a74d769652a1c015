// GIF against Pillow and the recipe package. Golden files: tests/golden/image/README.md;
// files_extra/ by scripts/oracle/image_extra_webp_gif.py.
#include "intake/gif_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "intake/gif_strings.h"
#include "intake/picture_test.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

using Bytes = std::vector<std::byte>;

Bytes picture(std::string_view name) {
  return read_image_file(str_cat(image_golden("files/"), name));
}

bool is_gif(const io::Json& row) { return test::text_of(row, "file").ends_with(".gif"); }

TEST(GifDecode, GoldenFilesByReference) {
  check_manifest(".gif", "GIF", 15, [](const DecodedImage&, const std::string&) {});
}

TEST(GifDecode, GoldenFilesByRecipe) { check_recipe(".gif", 14); }

// Palettes, screens and frames that ordinary encoders do not write.
TEST(GifDecode, UnusualFiles) {
  int rows = 0;
  for (const io::Json& row : test::read_json_lines(image_golden("files_extra/webp_gif.jsonl"))) {
    const std::string file = test::text_of(row, "file");
    if (!is_gif(row)) {
      continue;
    }
    ++rows;
    const Bytes bytes = read_image_file(str_cat(image_golden("files_extra/"), file));
    const DecodeResult reference = try_decode_image(bytes);
    const std::string sha256 = test::text_of(row, "rgb_sha256");
    EXPECT_EQ(rgb_sha256(reference), sha256.empty() ? test::text_of(row, "refuse") : sha256)
        << file;
    if (const DecodedImage* got = std::get_if<DecodedImage>(&reference)) {
      EXPECT_EQ(got->mode, test::text_of(row, "mode")) << file;
      EXPECT_EQ((std::vector<int64_t>{got->rgb.width(), got->rgb.height()}),
                test::integers_of(row, "size"))
          << file;
    }
    const DecodeResult recipe = try_decode_image(bytes, options_of("recipe"));
    if (row.find("recipe_refuse") != nullptr) {
      EXPECT_EQ(fault_of(recipe), test::text_of(row, "recipe_refuse")) << file;
    } else if (row.find("recipe_rgb_sha256") != nullptr) {
      EXPECT_EQ(rgb_sha256(recipe), test::text_of(row, "recipe_rgb_sha256")) << file;
      EXPECT_EQ(std::get<DecodedImage>(recipe).has_transparency,
                row.find("transparent")->as_boolean())
          << file;
    }
  }
  EXPECT_EQ(rows, 15);
}

TEST(GifDecode, SaysWhetherAPixelIsTransparent) {
  const auto is_transparent = [](std::string_view name) {
    return std::get<DecodedImage>(try_decode_image(picture(name))).has_transparency;
  };
  EXPECT_TRUE(is_transparent("gif_transparent.gif"));
  EXPECT_TRUE(is_transparent("gif_small_first.gif"));
  EXPECT_FALSE(is_transparent("gif_small_first_opaque.gif"));  // Pillow's screen
  EXPECT_FALSE(is_transparent("gif_static.gif"));
}

// LZW codes of a width that grows as a decoder's table does.
class Codes {
 public:
  explicit Codes(int bits) : clear_(1U << bits), bits_(bits), width_(bits + 1) {}

  void clear() {
    put(clear_);
    width_ = bits_ + 1;
    next_ = clear_ + 1;  // the first pixel after it defines nothing
  }
  void pixel(uint32_t index) {
    put(index);
    if (next_ < 4096 && ++next_ == 1U << width_ && width_ < 12) {
      ++width_;
    }
  }
  void end() { put(clear_ + 1); }

  // Blocks of at most 255 bytes and the empty block.
  std::string blocks() const {
    std::string bytes = bytes_;
    if (count_ > 0) {
      bytes.push_back(static_cast<char>(buffer_));
    }
    std::string out;
    for (size_t at = 0; at < bytes.size(); at += 255) {
      const std::string block = bytes.substr(at, 255);
      out.push_back(static_cast<char>(block.size()));
      out += block;
    }
    return out + '\0';
  }

 private:
  void put(uint32_t code) {
    buffer_ |= code << count_;
    for (count_ += width_; count_ >= 8; count_ -= 8) {
      bytes_.push_back(static_cast<char>(buffer_));
      buffer_ >>= 8;
    }
  }

  uint32_t clear_;
  int bits_;
  int width_;
  uint32_t next_ = 0;
  uint32_t buffer_ = 0;
  int count_ = 0;  // bits in buffer_
  std::string bytes_;
};

std::string word(int64_t value) {
  return {static_cast<char>(value & 0xff), static_cast<char>(value >> 8 & 0xff)};
}

constexpr int kPixelBits = 7;
constexpr int kColours = 1 << kPixelBits;

// Index i is (255 - i, i, 7).
std::string palette() {
  std::string out;
  for (int i = 0; i < kColours; ++i) {
    out += {static_cast<char>(255 - i), static_cast<char>(i), 7};
  }
  return out;
}

// One frame over the whole screen. `pixels` in the order of the file.
Bytes gif(int64_t width, int64_t height, const std::string& blocks, bool is_interlaced = false,
          int code_bits = kPixelBits) {
  const std::string size = word(width) + word(height);
  const std::string text =
      str_cat("GIF89a", size, std::string("\xf6\0\0", 3), palette(), ",", word(0), word(0), size,
              std::string(1, is_interlaced ? '\x40' : '\0'),
              std::string(1, static_cast<char>(code_bits)), blocks, ";");
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(data, data + text.size());
}

std::vector<int> indices_of(const DecodeResult& result) {
  std::vector<int> out;
  if (const DecodedImage* decoded = std::get_if<DecodedImage>(&result)) {
    const int64_t pixels = decoded->rgb.width() * decoded->rgb.height();
    for (int64_t i = 0; i < pixels; ++i) {
      out.push_back(decoded->rgb.pixels()[3 * i + 1]);
    }
  }
  return out;
}

TEST(GifDecode, RowsOfInterlacedFrames) {
  for (int height = 1; height <= 20; ++height) {
    std::vector<int> order;  // of the rows in the file
    for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      for (int y = first; y < height; y += step) {
        order.push_back(y);
      }
    }
    Codes codes(kPixelBits);
    codes.clear();
    for (const int y : order) {
      codes.pixel(static_cast<uint32_t>(2 * y));
      codes.pixel(static_cast<uint32_t>(2 * y + 1));
    }
    codes.end();
    std::vector<int> expected(static_cast<size_t>(2 * height));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(indices_of(try_decode_image(gif(2, height, codes.blocks(), true))), expected)
        << height;
  }
}

// An encoder may go on with a full table instead of clearing it.
TEST(GifDecode, CodesGrowToTwelveBitsAndStayThere) {
  std::mt19937 random(7);
  Codes codes(kPixelBits);
  std::vector<int> expected;
  codes.clear();
  for (int i = 0; i < 90 * 100; ++i) {
    expected.push_back(static_cast<int>(random() % kColours));
    codes.pixel(static_cast<uint32_t>(expected.back()));
  }
  codes.end();
  EXPECT_EQ(indices_of(try_decode_image(gif(90, 100, codes.blocks()))), expected);
}

TEST(GifDecode, CodeSizesOutsideTheFormatAreCorrupt) {
  Codes codes(kPixelBits);
  codes.clear();
  codes.pixel(1);
  codes.end();
  EXPECT_EQ(fault_of(try_decode_image(gif(1, 1, codes.blocks()))), "accepted");
  for (const int bits : {0, 1, 9, 12, 255}) {
    const DecodeResult result = try_decode_image(gif(1, 1, codes.blocks(), false, bits));
    ASSERT_EQ(fault_of(result), "corrupt") << bits;
    EXPECT_NE(std::get<Refusal>(result).detail.find(str_cat("codes of ", bits, " bits")),
              std::string::npos);
  }
}

// Pixels after such a code would be shown at the wrong place.
TEST(GifDecode, UndefinedCodesAreCorrupt) {
  for (const uint32_t code : {1U, kColours + 9U}) {
    Codes codes(kPixelBits);
    codes.clear();
    for (const uint32_t next : {1U, code, 1U, 1U}) {
      codes.pixel(next);
    }
    codes.end();
    EXPECT_EQ(fault_of(try_decode_image(gif(3, 1, codes.blocks()))),
              code < kColours ? "accepted" : "corrupt");
  }
}

enum class Place { before_the_frame, after_the_frame };

// A picture of one pixel with one more record.
Bytes one_pixel_with(std::string_view record, Place place) {
  Codes codes(kPixelBits);
  codes.clear();
  codes.pixel(1);
  codes.end();
  Bytes bytes = gif(1, 1, codes.blocks());
  const auto* data = reinterpret_cast<const std::byte*>(record.data());
  const size_t at = place == Place::before_the_frame ? 13 + 3 * kColours : bytes.size() - 1;
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), data, data + record.size());
  return bytes;
}

TEST(GifDecode, ShortControlsAreCorrupt) {
  const auto fault = [](std::string_view control) {
    return fault_of(try_decode_image(one_pixel_with(control, Place::before_the_frame)));
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(fault("!\xf9\4\0\0\0\0\0"sv), "accepted");
  EXPECT_EQ(fault("!\xf9\5\0\0\0\0\0\0"sv), "accepted");
  EXPECT_EQ(fault("!\xf9\3\0\0\0\0"sv), "corrupt");
  EXPECT_EQ(fault("!\xf9\0"sv), "corrupt");
}

// Only their blocks are read.
TEST(GifDecode, LaterFramesMayBeDamaged) {
  using namespace std::string_view_literals;
  const auto fault = [](std::string_view frame) {
    return fault_of(try_decode_image(one_pixel_with(frame, Place::after_the_frame)));
  };
  EXPECT_EQ(fault(",\0\0\0\0\1\0\1\0\0\x0c"sv), "accepted");        // LZW codes of 12 bits
  EXPECT_EQ(fault(",\0\0\0\0\1\0\1\0\0\2\1\xff\0"sv), "accepted");  // no pixels
  EXPECT_EQ(fault(",\0\0\0\0\1\0\1\0\0\2\xff"sv), "truncated");
}

TEST(GifStrings, ExpandsDefinedCodesOnly) {
  GifStrings strings(2);  // pixels 0 to 3, clear 4, end 5, strings from 6 on
  const auto expand = [&strings](int code) {
    const std::span<const uint8_t> pixels = strings.expand(code);
    return std::vector<int>(pixels.begin(), pixels.end());
  };
  EXPECT_EQ(expand(6), std::vector<int>{});  // nothing is defined before the first pixel
  EXPECT_EQ(expand(1), std::vector<int>{1});
  EXPECT_EQ(expand(7), std::vector<int>{});
  EXPECT_EQ(expand(6), (std::vector<int>{1, 1}));        // defined by itself
  EXPECT_EQ(expand(7), (std::vector<int>{1, 1, 1}));     // again
  EXPECT_EQ(expand(2), std::vector<int>{2});             // 8: 1 1 1 2
  EXPECT_EQ(expand(8), (std::vector<int>{1, 1, 1, 2}));  // 9: 2 1
  EXPECT_EQ(expand(9), (std::vector<int>{2, 1}));
  strings.reset();
  EXPECT_EQ(expand(6), std::vector<int>{});
}

TEST(GifStrings, LongestString) {
  GifStrings strings(2);
  ASSERT_EQ(strings.expand(3).size(), 1U);
  for (int code = 6; code < 4096; ++code) {
    ASSERT_EQ(strings.expand(code).size(), static_cast<size_t>(code - 4));
  }
  EXPECT_EQ(strings.expand(4095).size(), 4091U);  // the table is full
}

// Every prefix is refused, but for what has all records: GIF may lack its trailer.
TEST(GifDecode, NoPrefixIsAccepted) {
  for (const std::string_view name :
       {"gif_1x1.gif", "gif_2colours.gif", "gif_small_first.gif", "gif_transparent.gif",
        "gif_interlaced.gif", "gif_local_palette.gif"}) {
    const Bytes whole = picture(name);
    const std::string sha256 = rgb_sha256(try_decode_image(whole));
    int accepted = 0;
    for (size_t size = 6; size < whole.size(); ++size) {
      const DecodeResult result = try_decode_image(std::span(whole).first(size));
      if (fault_of(result) == "accepted") {
        EXPECT_EQ(whole[size - 1], std::byte{0}) << name << " " << size;  // the end of a record
        EXPECT_EQ(rgb_sha256(result), sha256) << name;
        ++accepted;
      } else {
        ASSERT_EQ(fault_of(result), "truncated") << name << " " << size;
      }
    }
    // The second one ends between the frames, the third after the control of the second frame.
    EXPECT_EQ(accepted, name == "gif_small_first.gif" ? 3 : 1) << name;
  }
}

TEST(GifDecode, BytesAfterThePictureDoNotMatter) {
  for (const std::string_view name : {"gif_anim.gif", "gif_notrailer.gif"}) {
    Bytes bytes = picture(name);
    const std::string sha256 = rgb_sha256(try_decode_image(bytes));
    for (const char c : std::string_view("something else, also ! and ;")) {
      bytes.push_back(static_cast<std::byte>(c));
    }
    EXPECT_EQ(rgb_sha256(try_decode_image(bytes)), sha256) << name;
  }
}

TEST(GifDecode, SurvivesDamage) {
  std::mt19937 random(20250214);
  DecodeLimits limits;
  limits.max_pixels = int64_t{1} << 20;
  int refused = 0;
  for (const std::string_view name :
       {"gif_interlaced.gif", "gif_local_palette.gif", "gif_small_first.gif", "gif_256colours.gif",
        "gif_comment_ext.gif"}) {
    const Bytes whole = picture(name);
    for (int round = 0; round < 400; ++round) {
      Bytes damaged = whole;
      const size_t changes = 1 + random() % 4;
      for (size_t i = 0; i < changes; ++i) {
        const size_t range = i % 2 == 0 ? damaged.size() : std::min<size_t>(damaged.size(), 60);
        damaged[random() % range] = static_cast<std::byte>(random() & 0xffU);
      }
      DecodeOptions options = options_of(round % 2 == 0 ? "reference" : "recipe");
      options.limits = limits;
      refused += fault_of(try_decode_image(damaged, options)) != "accepted" ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(GifDecode, StopsAtTheDeadline) {
  const Bytes bytes = picture("gif_static.gif");
  DecodeOptions options;
  options.deadline.at = Deadline::Clock::now();
  EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "timed_out");
  const std::atomic<bool> cancel = true;
  options.deadline = {.at = Deadline::Clock::time_point::max(), .cancel = &cancel};
  EXPECT_EQ(fault_of(try_decode_image(bytes, options)), "timed_out");
  // Also while it looks for a frame.
  EXPECT_EQ(fault_of(try_decode_image(picture("bad_gif_nopalette.gif"), options)), "timed_out");
}

TEST(GifDecode, LimitsAreCheckedAgainstScreenAndFrame) {
  // The frame reaches beyond a screen of 3 x 2.
  const Bytes bytes = read_image_file(image_golden("files_extra/gif_beyond_screen.gif"));
  const auto fault = [&bytes](std::string_view policy, int64_t max_side, int64_t max_pixels) {
    DecodeOptions options = options_of(policy);
    options.limits.max_side = max_side;
    options.limits.max_pixels = max_pixels;
    return fault_of(try_decode_image(bytes, options));
  };
  EXPECT_EQ(fault("reference", 4, 12), "accepted");  // 4 x 3
  EXPECT_EQ(fault("reference", 3, 12), "too_large");
  EXPECT_EQ(fault("reference", 4, 11), "too_large");
  EXPECT_EQ(fault("recipe", 3, 6), "accepted");
  EXPECT_EQ(fault("recipe", 2, 6), "too_large");
  EXPECT_EQ(fault("recipe", 3, 5), "too_large");
  // A frame that is cut to a small screen is decoded whole.
  EXPECT_EQ(fault_of(try_decode_image(picture("bad_bomb_gif_frame.gif"), options_of("recipe"))),
            "too_large");
}

}  // namespace
}  // namespace tessera::intake
