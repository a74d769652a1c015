#include "intake/multi_picture.h"

#include <cstdint>
#include <optional>

#include "intake/tiff_bytes.h"

namespace tessera::intake {
namespace {

constexpr uint32_t kTagPictureCount = 0xb001;
constexpr uint32_t kTagEntries = 0xb002;
constexpr uint64_t kEntryBytes = 16;
constexpr uint32_t kTypeLong = 4;

}  // namespace

bool names_several_pictures(std::span<const std::byte> data) {
  const std::optional<TiffBytes> tiff = TiffBytes::open(data);
  if (!tiff.has_value()) {
    return false;
  }
  const uint64_t directory = tiff->first_directory();
  const uint32_t entries = tiff->number(directory, 2).value_or(0);
  uint64_t pictures = 0;
  bool has_all_entries = false;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t at = directory + 2 + 12 * i;
    const std::optional<uint32_t> tag = tiff->number(at, 2);
    const std::optional<uint32_t> type = tiff->number(at + 2, 2);
    const std::optional<uint32_t> count = tiff->number(at + 4, 4);
    const std::optional<uint32_t> value = tiff->number(at + 8, 4);
    if (!value) {
      return false;
    }
    if (*tag == kTagPictureCount && *type == kTypeLong && *count == 1) {
      pictures = *value;
    }
    if (*tag == kTagEntries) {
      has_all_entries = *value <= tiff->size() && *count <= tiff->size() - *value &&
                        pictures * kEntryBytes <= *count;
    }
  }
  return pictures > 1 && has_all_entries;
}

}  // namespace tessera::intake
