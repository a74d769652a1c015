#include "intake/tiff_tags.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

constexpr uint32_t kByte = 1;
constexpr uint32_t kShort = 3;
constexpr uint32_t kLong = 4;
constexpr uint32_t kUndefined = 7;

// libtiff compares entries pairwise and keeps those that it does not know.
constexpr uint32_t kMostEntries = 1024;
constexpr uint64_t kEntryBytes = 12;

uint64_t type_bytes(uint32_t type) {
  constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

bool is_known(uint32_t tag) {
  switch (static_cast<TiffTag>(tag)) {
    case TiffTag::image_width:
    case TiffTag::image_length:
    case TiffTag::bits_per_sample:
    case TiffTag::compression:
    case TiffTag::photometric:
    case TiffTag::fill_order:
    case TiffTag::strip_offsets:
    case TiffTag::orientation:
    case TiffTag::samples_per_pixel:
    case TiffTag::rows_per_strip:
    case TiffTag::strip_byte_counts:
    case TiffTag::planar_configuration:
    case TiffTag::colour_map:
    case TiffTag::tile_width:
    case TiffTag::tile_length:
    case TiffTag::tile_offsets:
    case TiffTag::tile_byte_counts:
    case TiffTag::extra_samples:
    case TiffTag::sample_format:
    case TiffTag::ycbcr_subsampling:
    case TiffTag::xmp:
      return true;
  }
  return false;
}

Refusal corrupt(const std::string& detail) {
  return {Fault::corrupt, str_cat("TIFF: ", detail, "; re-encode the picture")};
}

// A place that no file within the limits has is nonsense; any other one may have been cut off.
Refusal refuse_beyond(std::string_view what, uint64_t end, uint64_t size,
                      const DecodeLimits& limits) {
  const bool is_plausible = end <= static_cast<uint64_t>(limits.max_bytes);
  return {is_plausible ? Fault::truncated : Fault::corrupt,
          str_cat("TIFF: ", what, " ends at byte ", end, ", the file has ", size,
                  is_plausible ? "; send the whole file" : "; re-encode the picture")};
}

}  // namespace

std::variant<TiffTags, Refusal> TiffTags::read(std::span<const std::byte> bytes,
                                               const DecodeLimits& limits) {
  const std::optional<TiffBytes> tiff = TiffBytes::open(bytes);
  if (!tiff.has_value()) {
    return Refusal{Fault::truncated, "TIFF: the file ends inside its header; send the whole file"};
  }
  TiffTags tags(bytes, *tiff);
  if (std::optional<Refusal> refusal = tags.read_entries(limits)) {
    return *std::move(refusal);
  }
  return tags;
}

std::optional<Refusal> TiffTags::read_entries(const DecodeLimits& limits) {
  const uint64_t directory = tiff_.first_directory();
  const std::optional<uint32_t> count = tiff_.number(directory, 2);
  if (!count.has_value()) {
    return refuse_beyond("the directory", directory + 2, tiff_.size(), limits);
  }
  if (*count == 0 || *count > kMostEntries) {
    return corrupt(str_cat("a directory of ", *count, " entries, expected 1 to ", kMostEntries));
  }
  const uint64_t end = directory + 2 + kEntryBytes * *count;
  if (end > tiff_.size()) {
    return refuse_beyond("the directory", end, tiff_.size(), limits);
  }
  uint64_t data_bytes = 0;
  for (uint64_t at = directory + 2; at < end; at += kEntryBytes) {
    Entry entry{*tiff_.number(at + 2, 2), *tiff_.number(at + 4, 4), at + 8};
    const uint64_t bytes = type_bytes(entry.type) * entry.count;
    if (bytes > 4) {
      entry.place = *tiff_.number(at + 8, 4);
      data_bytes += bytes;
    }
    if (std::optional<Refusal> refusal = add(*tiff_.number(at, 2), entry, limits)) {
      return refusal;
    }
  }
  // Entries that share their data would take more memory than the file has.
  if (data_bytes > tiff_.size()) {
    return corrupt(str_cat("tag data of ", data_bytes, " bytes, the file has ", tiff_.size()));
  }
  return std::nullopt;
}

std::optional<Refusal> TiffTags::add(uint32_t tag, Entry entry, const DecodeLimits& limits) {
  const uint64_t bytes = type_bytes(entry.type) * entry.count;
  if (!is_known(tag) || bytes == 0) {
    return std::nullopt;
  }
  const auto known = static_cast<TiffTag>(tag);
  if (has(known)) {  // readers differ about which one counts
    return corrupt(str_cat("tag ", tag, " comes twice"));
  }
  // Of other tags the first value counts; of this one Pillow takes none, libtiff the first.
  if (known == TiffTag::photometric && entry.count != 1) {
    return corrupt(str_cat("tag ", tag, " has ", entry.count, " values, expected 1"));
  }
  // Types that make no sense matter only where a number is needed.
  const bool is_wanted = known == TiffTag::xmp ? entry.type == kByte || entry.type == kUndefined
                                               : entry.type == kShort || entry.type == kLong;
  if (!is_wanted && known != TiffTag::orientation && known != TiffTag::xmp) {
    return corrupt(str_cat("tag ", tag, " has type ", entry.type, ", expected 3 or 4"));
  }
  if (entry.place + bytes > tiff_.size()) {
    return refuse_beyond(str_cat("the data of tag ", tag), entry.place + bytes, tiff_.size(),
                         limits);
  }
  if (is_wanted || known == TiffTag::orientation) {
    entries_[known] = entry;
  }
  return std::nullopt;
}

int64_t TiffTags::count(TiffTag tag) const {
  const auto found = entries_.find(tag);
  return found == entries_.end() ? 0 : found->second.count;
}

std::optional<uint32_t> TiffTags::number(TiffTag tag, int64_t index) const {
  const auto found = entries_.find(tag);
  if (found == entries_.end() || index >= found->second.count) {
    return std::nullopt;
  }
  const int bytes = static_cast<int>(type_bytes(found->second.type));
  return tiff_.number(found->second.place + static_cast<uint64_t>(index * bytes), bytes);
}

std::vector<uint32_t> TiffTags::values(TiffTag tag, int64_t at_most) const {
  std::vector<uint32_t> out;
  for (int64_t i = 0; i < std::min(count(tag), at_most); ++i) {
    out.push_back(number(tag, i).value_or(0));
  }
  return out;
}

int TiffTags::orientation() const {
  const auto upright_unless = [](uint32_t value) {
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  };
  const auto found = entries_.find(TiffTag::orientation);
  if (found != entries_.end()) {
    const bool is_number = found->second.type == kShort || found->second.type == kLong;
    return is_number ? upright_unless(value(TiffTag::orientation).value_or(1)) : 1;
  }
  const auto xmp = entries_.find(TiffTag::xmp);
  if (xmp == entries_.end()) {
    return 1;
  }
  const std::string_view packet(reinterpret_cast<const char*>(bytes_.data()) + xmp->second.place,
                                xmp->second.count);
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = packet.find(kName); at != packet.npos; at = packet.find(kName, at + 1)) {
    const std::string_view rest = packet.substr(at + kName.size());
    const size_t mark = rest.starts_with("=\"") ? 2 : rest.starts_with('>') ? 1 : 0;
    if (mark != 0 && rest.size() > mark && rest[mark] >= '0' && rest[mark] <= '9') {
      return upright_unless(static_cast<uint32_t>(rest[mark] - '0'));
    }
  }
  return 1;
}

}  // namespace tessera::intake
