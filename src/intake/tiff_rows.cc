#include "intake/tiff_rows.h"

#include <algorithm>
#include <cstring>

namespace tessera::intake {
namespace {

using image::Rgb;

template <typename T>
T load(const uint8_t* from, int64_t index) {
  T value;
  std::memcpy(&value, from + static_cast<int64_t>(sizeof value) * index, sizeof value);
  return value;
}

uint8_t clip(int64_t value) { return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255)); }

// Toward zero; no number is 0.
uint8_t clip(float value) {
  return value >= 255.0F ? uint8_t{255} : value > 0.0F ? static_cast<uint8_t>(value) : uint8_t{0};
}

// Two samples in three bytes, the highest bits first.
uint16_t grey12(const uint8_t* from, int64_t index) {
  const uint8_t* pair = from + index / 2 * 3;
  return static_cast<uint16_t>(index % 2 == 0 ? pair[0] << 4 | pair[1] >> 4
                                              : (pair[1] & 0x0f) << 8 | pair[2]);
}

// As Pillow: no colour without alpha, quotients rounded down.
void divide_by_alpha(uint8_t* pixel) {
  const uint32_t alpha = pixel[3];
  for (int i = 0; i < 3 && alpha != 255U; ++i) {
    pixel[i] = alpha == 0 ? uint8_t{0} : clip(int64_t{pixel[i] * 255U / alpha});
  }
}

// JFIF's matrix in Pillow's steps of 1/64: each product plus a half, rounded toward zero. Factors
// in 1/100000.
void ycbcr_to_rgb(uint8_t* pixel) {
  const auto part = [](int32_t factor, uint8_t chroma) {
    return (factor * 64 * (chroma - 128) + 50'000) / 100'000;
  };
  const int32_t y = pixel[0];
  const uint8_t cb = pixel[1];
  const uint8_t cr = pixel[2];
  pixel[0] = clip(int64_t{y + (part(140'200, cr) >> 6)});
  pixel[1] = clip(int64_t{y + ((part(-34'414, cb) + part(-71'414, cr)) >> 6)});
  pixel[2] = clip(int64_t{y + (part(177'200, cb) >> 6)});
}

// Colour maps shorter than the samples allow leave black.
std::vector<Rgb> make_palette(const TiffHeader& header) {
  std::vector<Rgb> palette(256);
  const size_t count = header.colour_map.size() / 3;
  const auto high_byte = [&header](size_t i) {
    return static_cast<uint8_t>(header.colour_map[i] / 256);
  };
  for (size_t i = 0; i < count; ++i) {
    palette[i] = {high_byte(i), high_byte(i + count), high_byte(i + 2 * count)};
  }
  return palette;
}

}  // namespace

TiffRows::TiffRows(const TiffHeader& header, const TiffLayout& layout, const image::Policy& policy,
                   int64_t width)
    : layout_(layout),
      writer_(layout.format, policy),
      bits_(header.bits),
      planes_(header.is_planar ? layout.used_samples : 1),
      stride_(header.is_planar ? layout.used_samples : header.samples),
      row_(static_cast<size_t>(width * kMostPixelBytes)) {
  if (header.colour == TiffColour::palette) {
    palette_ = make_palette(header);
    for (size_t i = 0; i < palette_.size(); ++i) {
      writer_.set_colour(static_cast<uint8_t>(i), palette_[i]);
    }
  }
  if (planes_ > 1) {
    together_.resize(static_cast<size_t>(width * planes_ * bits_ / 8));
  }
}

void TiffRows::write(std::span<const uint8_t* const> planes, int64_t width, uint8_t* to) {
  convert(planes.size() == 1 ? planes[0] : interleave(planes, width), width);
  writer_.write(row_.data(), width, to);
}

// Of separate planes, samples have 8 or 16 bits.
const uint8_t* TiffRows::interleave(std::span<const uint8_t* const> planes, int64_t width) {
  const int64_t bytes = bits_ / 8;
  for (int64_t plane = 0; plane < planes_; ++plane) {
    const uint8_t* from = planes[static_cast<size_t>(plane)];
    uint8_t* to = together_.data() + plane * bytes;
    for (int64_t x = 0; x < width; ++x, from += bytes, to += planes_ * bytes) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }
  return together_.data();
}

void TiffRows::convert(const uint8_t* from, int64_t width) {
  switch (layout_.pixels) {
    case TiffPixels::packed:
      convert_packed(from, width);
      return;
    case TiffPixels::bytes:
    case TiffPixels::words:
      convert_samples(from, width);
      return;
    case TiffPixels::grey12:
      for (int64_t x = 0; x < width; ++x) {
        const uint16_t value = grey12(from, x);
        std::memcpy(row_.data() + 2 * x, &value, sizeof value);
      }
      return;
    case TiffPixels::int16:
      for (int64_t x = 0; x < width; ++x) {
        row_[static_cast<size_t>(x)] = clip(int64_t{load<int16_t>(from, x)});
      }
      return;
    case TiffPixels::int32:
    case TiffPixels::uint32:  // as Pillow, which keeps them as signed: the upper half is negative
      for (int64_t x = 0; x < width; ++x) {
        row_[static_cast<size_t>(x)] = clip(int64_t{load<int32_t>(from, x)});
      }
      return;
    case TiffPixels::real32:
      for (int64_t x = 0; x < width; ++x) {
        row_[static_cast<size_t>(x)] = clip(load<float>(from, x));
      }
      return;
  }
}

void TiffRows::convert_packed(const uint8_t* from, int64_t width) {
  const int64_t per_byte = 8 / bits_;
  const uint32_t top = (1U << bits_) - 1U;
  const uint32_t scale = layout_.format == RowFormat::indexed8 ? 1U : 255U / top;
  const uint32_t flip = layout_.is_inverted ? 255U : 0U;
  for (int64_t x = 0; x < width; ++x) {
    const int64_t shift = 8 - bits_ * (x % per_byte + 1);
    const uint32_t value = (uint32_t{from[x / per_byte]} >> shift & top) * scale;
    row_[static_cast<size_t>(x)] = static_cast<uint8_t>(value ^ flip);
  }
}

void TiffRows::convert_samples(const uint8_t* from, int64_t width) {
  const bool is_wide = layout_.pixels == TiffPixels::words;
  const bool keeps_words = layout_.format == RowFormat::grey16 ||
                           layout_.format == RowFormat::rgb16 ||
                           layout_.format == RowFormat::rgba16;
  const int64_t sample_bytes = is_wide ? 2 : 1;
  uint8_t* to = row_.data();
  for (int64_t x = 0; x < width; ++x, from += stride_ * sample_bytes) {
    if (layout_.has_alpha_index) {
      const Rgb colour = palette_[from[0]];
      const uint8_t pixel[4] = {colour.r, colour.g, colour.b, from[1]};
      std::memcpy(to, pixel, sizeof pixel);
      to += sizeof pixel;
      continue;
    }
    if (is_wide && !keeps_words) {
      for (int64_t i = 0; i < layout_.used_samples; ++i) {
        to[i] = static_cast<uint8_t>(load<uint16_t>(from, i) >> 8);
      }
    } else {
      std::memcpy(to, from, static_cast<size_t>(layout_.used_samples * sample_bytes));
    }
    if (layout_.is_premultiplied) {
      divide_by_alpha(to);
    } else if (layout_.is_ycbcr) {
      ycbcr_to_rgb(to);
    }
    to += layout_.used_samples * (keeps_words ? 2 : 1);
  }
}

}  // namespace tessera::intake
