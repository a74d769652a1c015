#include "intake/multi_picture.h"

#include <cstdint>
#include <cstring>
#include <optional>

namespace tessera::intake {
namespace {

constexpr uint32_t kTagPictureCount = 0xb001;
constexpr uint32_t kTagEntries = 0xb002;
constexpr uint64_t kEntryBytes = 16;
constexpr uint32_t kTypeLong = 4;

// A TIFF structure of either byte order. Reads beyond the end give nothing.
class TiffBytes {
 public:
  TiffBytes(std::span<const std::byte> data, bool is_big_endian)
      : data_(data), is_big_endian_(is_big_endian) {}

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
  uint64_t size() const { return data_.size(); }

 private:
  std::span<const std::byte> data_;
  bool is_big_endian_;
};

}  // namespace

bool names_several_pictures(std::span<const std::byte> data) {
  if (data.size() < 8) {
    return false;
  }
  const bool is_big_endian = std::memcmp(data.data(), "MM\0*", 4) == 0;
  if (!is_big_endian && std::memcmp(data.data(), "II*\0", 4) != 0) {
    return false;
  }
  const TiffBytes tiff(data, is_big_endian);
  const uint64_t directory = *tiff.number(4, 4);
  const uint32_t entries = tiff.number(directory, 2).value_or(0);
  uint64_t pictures = 0;
  bool has_all_entries = false;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t at = directory + 2 + 12 * i;
    const std::optional<uint32_t> tag = tiff.number(at, 2);
    const std::optional<uint32_t> type = tiff.number(at + 2, 2);
    const std::optional<uint32_t> count = tiff.number(at + 4, 4);
    const std::optional<uint32_t> value = tiff.number(at + 8, 4);
    if (!value) {
      return false;
    }
    if (*tag == kTagPictureCount && *type == kTypeLong && *count == 1) {
      pictures = *value;
    }
    if (*tag == kTagEntries) {
      has_all_entries = *value <= tiff.size() && *count <= tiff.size() - *value &&
                        pictures * kEntryBytes <= *count;
    }
  }
  return pictures > 1 && has_all_entries;
}

}  // namespace tessera::intake
