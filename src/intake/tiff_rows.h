// Rows of TIFF samples to RGB pixels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "image/policy.h"
#include "intake/pixel_rows.h"
#include "intake/tiff_header.h"
#include "intake/tiff_layout.h"

namespace tessera::intake {

class TiffRows {
 public:
  // For rows of up to `width` pixels.
  TiffRows(const TiffHeader& header, const TiffLayout& layout, const image::Policy& policy,
           int64_t width);

  // Planes that write() wants: all samples of a pixel together, or one plane per used sample.
  int64_t planes() const { return planes_; }

  // `width` pixels from the start of each plane's row to RGB at `to`.
  void write(std::span<const uint8_t* const> planes, int64_t width, uint8_t* to);

  bool has_transparency() const { return writer_.has_transparency(); }

 private:
  const uint8_t* interleave(std::span<const uint8_t* const> planes, int64_t width);
  void convert(const uint8_t* from, int64_t width);
  void convert_packed(const uint8_t* from, int64_t width);
  void convert_samples(const uint8_t* from, int64_t width);

  TiffLayout layout_;
  RowWriter writer_;
  int64_t bits_;
  int64_t planes_;
  int64_t stride_;                   // samples from one pixel to the next
  std::vector<image::Rgb> palette_;  // of layout_.has_alpha_index
  std::vector<uint8_t> together_;    // planes as pixels
  std::vector<uint8_t> row_;         // in the writer's format
};

}  // namespace tessera::intake
