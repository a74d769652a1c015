#include "intake/bmp_header.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/str_cat.h"
#include "intake/limits.h"

namespace tessera::intake {
namespace {

using image::Rgb;

constexpr int64_t kFileHeaderBytes = 14;
constexpr int64_t kCoreHeaderBytes = 12;
constexpr int64_t kInfoHeaderBytes = 40;
constexpr int64_t kMostColours = 256;

// Values of the compression field.
constexpr uint32_t kRaw = 0;
constexpr uint32_t kRle8 = 1;
constexpr uint32_t kRle4 = 2;
constexpr uint32_t kBitFields = 3;
constexpr uint32_t kJpeg = 4;
constexpr uint32_t kPng = 5;

struct Masks {
  uint32_t r;
  uint32_t g;
  uint32_t b;
  uint32_t alpha;
  friend bool operator==(const Masks&, const Masks&) = default;
};

struct MaskLayout {
  Masks masks;
  BmpBytes bytes;
};

// 32 bits; the layouts that Pillow knows.
constexpr MaskLayout kMaskLayouts[] = {
    {{0xff0000, 0xff00, 0xff, 0}, {2, 1, 0, -1}},
    {{0xff000000, 0xff0000, 0xff00, 0}, {3, 2, 1, -1}},
    {{0xff000000, 0xff00, 0xff, 0}, {3, 1, 0, -1}},
    {{0xff000000, 0xff0000, 0xff00, 0xff}, {3, 2, 1, 0}},
    {{0xff, 0xff00, 0xff0000, 0xff000000}, {0, 1, 2, 3}},
    {{0xff0000, 0xff00, 0xff, 0xff000000}, {2, 1, 0, 3}},
    {{0xff000000, 0xff00, 0xff, 0xff0000}, {3, 1, 0, 2}},
    {{0, 0, 0, 0}, {2, 1, 0, 3}},
};

uint32_t number(std::span<const std::byte> bytes, int64_t at, int64_t count) {
  uint32_t value = 0;
  for (int64_t i = count - 1; i >= 0; --i) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[static_cast<size_t>(at + i)]);
  }
  return value;
}

std::string hex(uint32_t value) {
  std::string text;
  do {
    text.insert(text.begin(), "0123456789abcdef"[value & 15U]);
    value >>= 4;
  } while (value != 0);
  return text;
}

Refusal refuse_short(int64_t have, int64_t need) {
  return {Fault::truncated, str_cat("BMP: the file ends after ", have, " bytes, expected ", need,
                                    "; send the whole file")};
}

// Reads the parts of the header in the order of the file.
class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const DecodeLimits& limits)
      : bytes_(bytes), limits_(limits) {}

  std::variant<BmpHeader, Refusal> run() {
    for (const auto step : {&Parser::read_sizes, &Parser::read_masks, &Parser::choose_pixels,
                            &Parser::read_palette, &Parser::check_data}) {
      if (std::optional<Refusal> refusal = (this->*step)()) {
        return *std::move(refusal);
      }
    }
    return header_;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint32_t at(int64_t place, int64_t count) const { return number(bytes_, place, count); }
  bool is_core() const { return header_bytes_ == kCoreHeaderBytes; }

  std::optional<Refusal> read_sizes() {
    if (size() < kFileHeaderBytes + 4) {
      return refuse_short(size(), kFileHeaderBytes + 4);
    }
    header_bytes_ = at(kFileHeaderBytes, 4);
    constexpr int64_t kKnown[] = {kCoreHeaderBytes, kInfoHeaderBytes, 52, 56, 64, 108, 124};
    if (std::find(std::begin(kKnown), std::end(kKnown), header_bytes_) == std::end(kKnown)) {
      return Refusal{Fault::unsupported, str_cat("BMP: header of ", header_bytes_,
                                                 " bytes, expected 12, 40, 52, 56, 64, 108 or "
                                                 "124; convert to PNG")};
    }
    end_ = kFileHeaderBytes + header_bytes_;
    if (size() < end_) {
      return refuse_short(size(), end_);
    }
    if (is_core()) {
      header_.width = at(18, 2);
      header_.height = at(20, 2);
      header_.bits = at(24, 2);
    } else {
      header_.is_top_down = at(25, 1) == 0xff;  // a negative height
      header_.width = at(18, 4);
      header_.height = header_.is_top_down ? (int64_t{1} << 32) - at(22, 4) : at(22, 4);
      header_.bits = at(28, 2);
      compression_ = at(30, 4);
      colours_ = at(46, 4);
    }
    return check_header_size("BMP", header_.width, header_.height, limits_);
  }

  std::optional<Refusal> read_masks() {
    if (compression_ != kBitFields) {
      return std::nullopt;
    }
    constexpr int64_t kMaskBytes = 12;  // after a header of 40 bytes, inside of longer ones
    if (header_bytes_ == kInfoHeaderBytes) {
      end_ += kMaskBytes;
      if (size() < end_) {
        return refuse_short(size(), end_);
      }
    }
    masks_ = {at(54, 4), at(58, 4), at(62, 4), header_bytes_ >= 56 ? at(66, 4) : 0};
    return std::nullopt;
  }

  std::optional<Refusal> choose_pixels() {
    if (compression_ > kBitFields) {
      const std::string name = compression_ == kJpeg  ? "JPEG"
                               : compression_ == kPng ? "PNG"
                                                      : str_cat(compression_);
      return Refusal{Fault::unsupported,
                     str_cat("BMP: compression ", name, " is not read; convert to JPEG or PNG")};
    }
    const bool is_palette = header_.bits == 1 || header_.bits == 4 || header_.bits == 8;
    if (!is_palette && header_.bits != 16 && header_.bits != 24 && header_.bits != 32) {
      return Refusal{header_.bits == 2 ? Fault::unsupported : Fault::corrupt,  // Windows CE has 2

                     str_cat("BMP: ", header_.bits, " bits per pixel, expected 1, 4, 8, 16, 24 or ",
                             "32; re-encode the picture")};
    }
    if (compression_ == kRle8 || compression_ == kRle4) {
      if (!is_palette) {
        return Refusal{Fault::corrupt, str_cat("BMP: runs of ", header_.bits,
                                               " bits per pixel, expected at most 8; re-encode "
                                               "the picture")};
      }
      header_.pixels = BmpPixels::rle;
      header_.is_rle4 = compression_ == kRle4;
      return std::nullopt;
    }
    header_.pillow_mode = is_palette ? "P" : "RGB";
    if (compression_ == kBitFields) {
      return choose_by_masks();
    }
    header_.pixels = is_palette           ? BmpPixels::indexed
                     : header_.bits == 16 ? BmpPixels::bits_555
                                          : BmpPixels::bytes;
    header_.bytes = {2, 1, 0, -1};  // a fourth byte is unused
    return std::nullopt;
  }

  std::optional<Refusal> choose_by_masks() {
    const auto is = [this](uint32_t r, uint32_t g, uint32_t b) {
      return masks_.r == r && masks_.g == g && masks_.b == b;
    };
    if (header_.bits == 16 && is(0xf800, 0x7e0, 0x1f)) {
      header_.pixels = BmpPixels::bits_565;
      return std::nullopt;
    }
    if (header_.bits == 16 && is(0x7c00, 0x3e0, 0x1f)) {
      header_.pixels = BmpPixels::bits_555;
      return std::nullopt;
    }
    header_.pixels = BmpPixels::bytes;
    if (header_.bits == 24 && is(0xff0000, 0xff00, 0xff)) {
      header_.bytes = {2, 1, 0, -1};
      return std::nullopt;
    }
    for (const MaskLayout& layout : kMaskLayouts) {
      if (header_.bits == 32 && masks_ == layout.masks) {
        header_.bytes = layout.bytes;
        header_.pillow_mode = layout.bytes.alpha >= 0 ? "RGBA" : "RGB";
        return std::nullopt;
      }
    }
    return Refusal{
        Fault::unsupported,
        str_cat("BMP: bit masks ", hex(masks_.r), ", ", hex(masks_.g), ", ", hex(masks_.b), ", ",
                hex(masks_.alpha), " of ", header_.bits, " bits are not read; convert to PNG")};
  }

  std::optional<Refusal> read_palette() {
    const int64_t stored_offset = at(10, 4);
    header_.data_offset = stored_offset != 0 ? stored_offset : end_;
    if (header_.bits > 8) {
      return std::nullopt;
    }
    const int64_t count = colours_ != 0 ? colours_ : int64_t{1} << header_.bits;
    const int64_t entry_bytes = is_core() ? 3 : 4;
    const int64_t palette_end = end_ + entry_bytes * count;
    // Some writers give the end of the header as the place of the pixels.
    if (stored_offset == kFileHeaderBytes + header_bytes_ || stored_offset == 0) {
      header_.data_offset = palette_end;
    }
    if (count > kMostColours) {
      return Refusal{Fault::corrupt,
                     str_cat("BMP: a palette of ", count, " colours, expected at most ",
                             kMostColours, "; re-encode the picture")};
    }
    if (size() < palette_end) {
      return refuse_short(size(), palette_end);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = end_ + entry_bytes * i;
      header_.palette[static_cast<size_t>(i)] = {static_cast<uint8_t>(at(place + 2, 1)),
                                                 static_cast<uint8_t>(at(place + 1, 1)),
                                                 static_cast<uint8_t>(at(place, 1))};
    }
    return name_palette(count);
  }

  // A palette that is all greys in order is dropped by Pillow: pixels are grey values.
  std::optional<Refusal> name_palette(int64_t count) {
    const auto grey = [count](int64_t i) {
      return static_cast<uint8_t>(count == 2 && i == 1 ? 255 : i);
    };
    bool is_grey = true;
    for (int64_t i = 0; is_grey && i < count; ++i) {
      is_grey = header_.palette[static_cast<size_t>(i)] == Rgb{grey(i), grey(i), grey(i)};
    }
    if (!is_grey) {
      header_.pillow_mode = "P";
      return std::nullopt;
    }
    const bool is_bilevel = count <= 2;
    header_.pillow_mode = is_bilevel ? "1" : "L";
    const bool is_rle = header_.pixels == BmpPixels::rle;
    // Pillow then reads the rows with the bits of that mode, whatever the header says: garbage.
    if (is_bilevel ? is_rle || header_.bits != 1 : !is_rle && header_.bits != 8) {
      return Refusal{Fault::unsupported,
                     str_cat("BMP: ", header_.bits, is_rle ? "-bit runs" : "-bit pixels",
                             " with a palette of ", count, " greys are not read; convert to PNG")};
    }
    for (int64_t i = 0; i < kMostColours; ++i) {
      const uint8_t value = is_bilevel && i == 1 ? uint8_t{255} : static_cast<uint8_t>(i);
      header_.palette[static_cast<size_t>(i)] = {value, value, value};
    }
    return std::nullopt;
  }

  // The last row need not be padded.
  std::optional<Refusal> check_data() {
    const int64_t need =
        header_.data_offset +
        (header_.pixels == BmpPixels::rle
             ? 1
             : (header_.height - 1) * header_.stride_bytes() + header_.row_bytes());
    return size() < need ? std::optional(refuse_short(size(), need)) : std::nullopt;
  }

  std::span<const std::byte> bytes_;
  const DecodeLimits& limits_;
  BmpHeader header_;
  int64_t header_bytes_ = 0;  // without the file header
  int64_t end_ = 0;           // of the header and the masks, from the start of the file
  uint32_t compression_ = kRaw;
  uint32_t colours_ = 0;
  Masks masks_{};
};

}  // namespace

std::variant<BmpHeader, Refusal> read_bmp_header(std::span<const std::byte> bytes,
                                                 const DecodeLimits& limits) {
  return Parser(bytes, limits).run();
}

}  // namespace tessera::intake
