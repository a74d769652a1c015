// The entries of the first directory of a TIFF file. Source: TIFF 6.0, section 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "intake/decode.h"
#include "intake/tiff_bytes.h"

namespace tessera::intake {

// Tags that decide what the pixels are.
enum class TiffTag : uint32_t {
  image_width = 256,
  image_length = 257,
  bits_per_sample = 258,
  compression = 259,
  photometric = 262,
  fill_order = 266,
  strip_offsets = 273,
  orientation = 274,
  samples_per_pixel = 277,
  rows_per_strip = 278,
  strip_byte_counts = 279,
  planar_configuration = 284,
  colour_map = 320,
  tile_width = 322,
  tile_length = 323,
  tile_offsets = 324,
  tile_byte_counts = 325,
  extra_samples = 338,
  sample_format = 339,
  ycbcr_subsampling = 530,
  xmp = 700,
};

class TiffTags {
 public:
  // Refuses a directory, or data of the tags above, beyond the end of the file (truncated, or
  // corrupt where no file within the limits could be that long); tag data that is larger than the
  // file, tags that come twice or are no integers, and directories without entries
  // (corrupt).
  static std::variant<TiffTags, Refusal> read(std::span<const std::byte> bytes,
                                              const DecodeLimits& limits);

  bool is_big_endian() const { return bytes_[0] == std::byte{'M'}; }
  int64_t file_bytes() const { return static_cast<int64_t>(tiff_.size()); }

  bool has(TiffTag tag) const { return entries_.contains(tag); }
  int64_t count(TiffTag tag) const;  // of values, 0 if absent
  // Nothing if the tag is absent or has no such value.
  std::optional<uint32_t> number(TiffTag tag, int64_t index) const;
  std::optional<uint32_t> value(TiffTag tag) const { return number(tag, 0); }
  std::vector<uint32_t> values(TiffTag tag, int64_t at_most) const;

  // 1 to 8; as Pillow, that of the XMP packet if there is no Orientation tag.
  int orientation() const;

 private:
  struct Entry {
    uint32_t type = 0;
    uint32_t count = 0;
    uint64_t place = 0;  // of the first value in the file
  };

  TiffTags(std::span<const std::byte> bytes, TiffBytes tiff) : bytes_(bytes), tiff_(tiff) {}
  std::optional<Refusal> read_entries(const DecodeLimits& limits);
  std::optional<Refusal> add(uint32_t tag, Entry entry, const DecodeLimits& limits);

  std::span<const std::byte> bytes_;
  TiffBytes tiff_;
  std::map<TiffTag, Entry> entries_;
};

}  // namespace tessera::intake
