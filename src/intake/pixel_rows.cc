#include "intake/pixel_rows.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tessera::intake {
namespace {

using image::Rgb;

uint32_t sample16(const uint8_t* from, int64_t index) noexcept {
  uint16_t value = 0;
  std::memcpy(&value, from + 2 * index, sizeof value);
  return value;
}

// muldiv255 of Pillow: a * b / 255, rounded.
uint32_t multiply_255(uint32_t a, uint32_t b) noexcept {
  const uint32_t t = a * b + 128U;
  return ((t >> 8) + t) >> 8;
}

uint8_t blend(uint32_t colour, uint32_t alpha, uint32_t background) noexcept {
  return static_cast<uint8_t>((colour * alpha + background * (255U - alpha) + 127U) / 255U);
}

void store(Rgb colour, uint8_t* to) noexcept {
  to[0] = colour.r;
  to[1] = colour.g;
  to[2] = colour.b;
}

}  // namespace

int64_t pixel_bytes(RowFormat format) {
  switch (format) {
    case RowFormat::grey8:
    case RowFormat::indexed8:
      return 1;
    case RowFormat::grey16:
    case RowFormat::grey_alpha8:
      return 2;
    case RowFormat::rgb8:
      return 3;
    case RowFormat::grey_alpha16:
    case RowFormat::rgba8:
    case RowFormat::cmyk8:
    case RowFormat::cmyk8_inverted:
      return 4;
    case RowFormat::rgb16:
      return 6;
    case RowFormat::rgba16:
      return 8;
  }
  TESSERA_UNREACHABLE();
}

RowWriter::RowWriter(RowFormat format, const image::Policy& policy)
    : format_(format), policy_(policy) {
  palette_alpha_.fill(255);
}

void RowWriter::set_colour(uint8_t index, Rgb colour, uint8_t alpha) {
  palette_[index] = colour;
  palette_alpha_[index] = alpha;
}

void RowWriter::set_colour_key(uint16_t r, uint16_t g, uint16_t b) {
  key_ = {r, g, b};
  has_key_ = true;
}

// A 16-bit sample to 8 bits.
uint8_t RowWriter::narrow(uint32_t sample, bool is_grey) const noexcept {
  if (policy_.sixteen_bit == image::SixteenBitRule::scale) {
    return static_cast<uint8_t>((sample + 128U) / 257U);
  }
  return static_cast<uint8_t>(is_grey ? std::min(sample, 255U) : sample >> 8);
}

void RowWriter::put(Rgb colour, uint32_t alpha, bool can_blend, uint8_t* to) noexcept {
  if (alpha != 255U) {
    has_transparency_ = true;
    if (can_blend && policy_.alpha == image::AlphaRule::blend) {
      const Rgb under = policy_.background;
      colour = {blend(colour.r, alpha, under.r), blend(colour.g, alpha, under.g),
                blend(colour.b, alpha, under.b)};
    }
  }
  store(colour, to);
}

void RowWriter::write(const uint8_t* from, int64_t width, uint8_t* to, int64_t step) noexcept {
  const int64_t stride = image::Image::kChannels * step;
  switch (format_) {
    case RowFormat::grey8:
      for (int64_t x = 0; x < width; ++x, to += stride) {
        std::memset(to, from[x], 3);
      }
      return;
    case RowFormat::grey16:
      for (int64_t x = 0; x < width; ++x, to += stride) {
        std::memset(to, narrow(sample16(from, x), true), 3);
      }
      return;
    case RowFormat::grey_alpha8:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 2) {
        put({from[0], from[0], from[0]}, from[1], true, to);
      }
      return;
    case RowFormat::grey_alpha16:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 4) {
        const uint8_t grey = narrow(sample16(from, 0), false);
        put({grey, grey, grey}, narrow(sample16(from, 1), false), true, to);
      }
      return;
    case RowFormat::rgb8:
      if (!has_key_ && step == 1) {
        std::memcpy(to, from, static_cast<size_t>(3 * width));
        return;
      }
      for (int64_t x = 0; x < width; ++x, to += stride, from += 3) {
        const bool is_clear =
            has_key_ && from[0] == key_[0] && from[1] == key_[1] && from[2] == key_[2];
        put({from[0], from[1], from[2]}, is_clear ? 0 : 255, policy_.blends_colour_key, to);
      }
      return;
    case RowFormat::rgb16:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 6) {
        const uint32_t r = sample16(from, 0);
        const uint32_t g = sample16(from, 1);
        const uint32_t b = sample16(from, 2);
        const bool is_clear = has_key_ && r == key_[0] && g == key_[1] && b == key_[2];
        put({narrow(r, false), narrow(g, false), narrow(b, false)}, is_clear ? 0 : 255,
            policy_.blends_colour_key, to);
      }
      return;
    case RowFormat::rgba8:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 4) {
        put({from[0], from[1], from[2]}, from[3], true, to);
      }
      return;
    case RowFormat::rgba16:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 8) {
        put({narrow(sample16(from, 0), false), narrow(sample16(from, 1), false),
             narrow(sample16(from, 2), false)},
            narrow(sample16(from, 3), false), true, to);
      }
      return;
    case RowFormat::indexed8:
      for (int64_t x = 0; x < width; ++x, to += stride) {
        put(palette_[from[x]], palette_alpha_[from[x]], true, to);
      }
      return;
    case RowFormat::cmyk8:
    case RowFormat::cmyk8_inverted:
      for (int64_t x = 0; x < width; ++x, to += stride, from += 4) {
        const uint32_t flip = format_ == RowFormat::cmyk8 ? 0U : 255U;
        const uint32_t light = 255U - (from[3] ^ flip);
        for (int64_t i = 0; i < 3; ++i) {
          const uint32_t ink = from[i] ^ flip;
          const uint32_t dark =
              policy_.cmyk == image::CmykRule::pillow ? multiply_255(ink, light) : ink * light >> 8;
          to[i] = static_cast<uint8_t>(light - dark);
        }
      }
      return;
  }
}

}  // namespace tessera::intake
