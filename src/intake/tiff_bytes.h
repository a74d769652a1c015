// Numbers of a TIFF structure in memory, as EXIF blocks and multi-picture indices have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace tessera::intake {

class TiffBytes {
 public:
  // Nothing if `data` does not begin as a TIFF structure of either byte order.
  static std::optional<TiffBytes> open(std::span<const std::byte> data) {
    if (data.size() < 8) {
      return std::nullopt;
    }
    const bool is_big_endian = std::memcmp(data.data(), "MM\0*", 4) == 0;
    if (!is_big_endian && std::memcmp(data.data(), "II*\0", 4) != 0) {
      return std::nullopt;
    }
    return TiffBytes(data, is_big_endian);
  }

  // Nothing beyond the end. `bytes`: 1 to 4.
  std::optional<uint32_t> number(uint64_t at, int bytes) const {
    if (at > data_.size() || data_.size() - at < static_cast<uint64_t>(bytes)) {
      return std::nullopt;
    }
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const int from = is_big_endian_ ? i : bytes - 1 - i;
      value = value << 8 | std::to_integer<uint32_t>(data_[at + static_cast<uint64_t>(from)]);
    }
    return value;
  }
  uint64_t first_directory() const { return *number(4, 4); }
  uint64_t size() const { return data_.size(); }

 private:
  TiffBytes(std::span<const std::byte> data, bool is_big_endian)
      : data_(data), is_big_endian_(is_big_endian) {}

  std::span<const std::byte> data_;
  bool is_big_endian_;
};

}  // namespace tessera::intake
