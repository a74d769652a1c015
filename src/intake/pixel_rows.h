// One row of decoded samples to RGB by the rules of a policy: the one place where transparency, 16
// bits, palettes and inks become colours, whatever the file format.
#pragma once

#include <array>
#include <cstdint>

#include "image/policy.h"

namespace tessera::intake {

// Samples of one pixel, without gaps. 16-bit samples are uint16 in the machine's byte order, at any
// address.
enum class RowFormat {
  grey8,
  grey16,
  grey_alpha8,
  grey_alpha16,
  rgb8,
  rgb16,
  rgba8,  // alpha is not premultiplied
  rgba16,
  indexed8,
  cmyk8,           // 255: full ink
  cmyk8_inverted,  // 0: full ink, as JPEG stores it
};

constexpr int64_t kMostPixelBytes = 8;  // rgba16
int64_t pixel_bytes(RowFormat format);

class RowWriter {
 public:
  RowWriter(RowFormat format, const image::Policy& policy);

  // indexed8: entries that are not set are opaque black.
  void set_colour(uint8_t index, image::Rgb colour, uint8_t alpha = 255);
  // rgb8 and rgb16: this colour is transparent where the policy says so.
  void set_colour_key(uint16_t r, uint16_t g, uint16_t b);

  // `width` pixels from `from` to every `step`-th pixel from `to` on. Fit to be called where a C
  // library may longjmp.
  void write(const uint8_t* from, int64_t width, uint8_t* to, int64_t step = 1) noexcept;

  // Whether a pixel written so far is not opaque (also where the policy drops alpha).
  bool has_transparency() const { return has_transparency_; }

 private:
  void put(image::Rgb colour, uint32_t alpha, bool can_blend, uint8_t* to) noexcept;
  uint8_t narrow(uint32_t sample, bool is_grey) const noexcept;

  RowFormat format_;
  image::Policy policy_;
  std::array<image::Rgb, 256> palette_{};
  std::array<uint8_t, 256> palette_alpha_{};
  std::array<uint16_t, 3> key_{};
  bool has_key_ = false;
  bool has_transparency_ = false;
};

}  // namespace tessera::intake
