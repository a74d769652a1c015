// Decoded pictures in memory and their sizes. Nothing here knows file formats or models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"

namespace tessera::image {

struct Size {
  int64_t width = 0;   // pixels
  int64_t height = 0;  // pixels
  friend bool operator==(const Size&, const Size&) = default;
};

struct Box {
  int64_t x = 0;  // pixels from the left edge
  int64_t y = 0;  // pixels from the upper edge
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

struct Rgb {
  uint8_t r = 0;
  uint8_t g = 0;
  uint8_t b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

// Bounds of any picture in memory. The side keeps resampling tables below 0.3 GB, the product keeps
// pixels below 3 GiB; decoders apply tighter limits.
constexpr int64_t kMaxSide = int64_t{1} << 24;
constexpr int64_t kMaxPixels = int64_t{1} << 30;

// Throws Error{bad_request} for a side below 1 or above kMaxSide, or more than kMaxPixels.
void check_size(Size size);

// Move-only RGB picture, uint8 [height, width, 3], rows without gaps.
class Image {
 public:
  static constexpr int64_t kChannels = 3;

  Image() = default;
  // Pixels are not initialised. Throws as check_size() does, and Error{out_of_memory} when the
  // system refuses.
  explicit Image(Size size);
  Image(Size size, Rgb fill);

  Size size() const { return size_; }
  int64_t width() const { return size_.width; }
  int64_t height() const { return size_.height; }
  int64_t row_bytes() const { return size_.width * kChannels; }

  uint8_t* row(int64_t y) { return pixels() + y * row_bytes(); }
  const uint8_t* row(int64_t y) const { return pixels() + y * row_bytes(); }
  uint8_t* pixels() { return reinterpret_cast<uint8_t*>(buffer_.data()); }
  const uint8_t* pixels() const { return reinterpret_cast<const uint8_t*>(buffer_.data()); }
  std::span<const std::byte> bytes() const {
    return {buffer_.data(), static_cast<size_t>(buffer_.bytes())};
  }

  Image copy() const;

 private:
  AlignedBuffer buffer_;
  Size size_;
};

}  // namespace tessera::image
