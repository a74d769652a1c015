#include "intake/exif.h"

#include <string_view>

#include "intake/tiff_bytes.h"

namespace tessera::intake {
namespace {

constexpr uint32_t kTagOrientation = 0x0112;
constexpr uint32_t kTypeShort = 3;

}  // namespace

int exif_orientation(std::span<const std::byte> exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (exif.size() >= kPrefix.size() &&
      std::memcmp(exif.data(), kPrefix.data(), kPrefix.size()) == 0) {
    exif = exif.subspan(kPrefix.size());
  }
  const std::optional<TiffBytes> tiff = TiffBytes::open(exif);
  if (!tiff.has_value()) {
    return 1;
  }
  const uint64_t directory = tiff->first_directory();
  const uint32_t entries = tiff->number(directory, 2).value_or(0);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t at = directory + 2 + 12 * i;
    const std::optional<uint32_t> tag = tiff->number(at, 2);
    const std::optional<uint32_t> value = tiff->number(at + 8, 2);
    if (!value.has_value()) {
      return 1;
    }
    if (*tag == kTagOrientation && tiff->number(at + 2, 2) == kTypeShort) {
      return *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
    }
  }
  return 1;
}

}  // namespace tessera::intake
