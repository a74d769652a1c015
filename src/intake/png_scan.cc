#include "intake/png_scan.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/str_cat.h"
#include "intake/exif.h"
#include "intake/limits.h"

namespace tessera::intake {
namespace {

constexpr uint32_t kLongestChunk = 0x7fffffff;
constexpr size_t kHeaderBytes = 13;
// Pillow's PngImagePlugin.MAX_TEXT_CHUNK and MAX_TEXT_MEMORY.
constexpr int64_t kMaxInflatedChunk = int64_t{1} << 20;
constexpr int64_t kMaxInflatedTotal = 64 * kMaxInflatedChunk;

uint32_t byte_at(std::span<const std::byte> bytes, size_t i) {
  return std::to_integer<uint32_t>(bytes[i]);
}

Refusal corrupt(std::string detail) {
  return {Fault::corrupt, str_cat("PNG: ", detail, "; re-encode the picture")};
}

// Bytes that a zlib stream inflates to, counted up to just above `limit`. Damaged streams count as
// what they gave: their content is not used.
int64_t inflated_bytes(std::span<const std::byte> stream, int64_t limit) {
  z_stream z{};
  if (inflateInit(&z) != Z_OK) {
    return 0;
  }
  std::array<Bytef, 16384> out;
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(stream.data()));
  z.avail_in = static_cast<uInt>(stream.size());
  int64_t total = 0;
  int status = Z_OK;
  while (status == Z_OK && total <= limit) {
    z.next_out = out.data();
    z.avail_out = static_cast<uInt>(out.size());
    status = inflate(&z, Z_NO_FLUSH);
    total += static_cast<int64_t>(out.size() - z.avail_out);
  }
  inflateEnd(&z);
  return total;
}

// The compressed part of a zTXt, iTXt or iCCP chunk; empty if there is none.
std::span<const std::byte> compressed_part(std::string_view type, std::span<const std::byte> data) {
  const auto after_zero = [&data](size_t from) {
    const auto zero =
        std::find(data.begin() + static_cast<std::ptrdiff_t>(from), data.end(), std::byte{0});
    return zero == data.end() ? data.size() : static_cast<size_t>(zero - data.begin()) + 1;
  };
  const size_t keyword_end = after_zero(0);
  if (type == "zTXt" || type == "iCCP") {  // keyword, 0, method, stream
    return keyword_end + 1 <= data.size() ? data.subspan(keyword_end + 1)
                                          : std::span<const std::byte>{};
  }
  // iTXt: keyword, 0, flag, method, language, 0, translated keyword, 0, text or stream
  if (type != "iTXt" || keyword_end + 2 > data.size() || data[keyword_end] == std::byte{0}) {
    return {};
  }
  return data.subspan(after_zero(after_zero(keyword_end + 2)));
}

std::optional<Refusal> check_ihdr(std::span<const std::byte> data, const DecodeLimits& limits,
                                  PngHeader& header) {
  header.width = png_number(data, 0);
  header.height = png_number(data, 4);
  header.bit_depth = static_cast<int>(byte_at(data, 8));
  header.colour_type = static_cast<int>(byte_at(data, 9));
  header.is_interlaced = byte_at(data, 12) == 1;
  const int depth = header.bit_depth;
  const bool is_deep = depth == 8 || depth == 16;
  const bool is_shallow = depth == 1 || depth == 2 || depth == 4;
  const int type = header.colour_type;
  const bool is_known = type == 0   ? is_deep || is_shallow
                        : type == 3 ? depth == 8 || is_shallow
                                    : (type == 2 || type == 4 || type == 6) && is_deep;
  if (!is_known) {
    return corrupt(str_cat("the header has colour type ", type, " with ", depth,
                           " bits per sample, which PNG does not know"));
  }
  if (byte_at(data, 10) != 0 || byte_at(data, 11) != 0 || byte_at(data, 12) > 1) {
    return corrupt("the header names an unknown compression, filter or interlace method");
  }
  return check_header_size("PNG", header.width, header.height, limits);
}

Refusal truncated(size_t size) {
  return {Fault::truncated, str_cat("PNG: the file ends after ", size,
                                    " bytes, before its IEND chunk; send the whole file")};
}

}  // namespace

uint32_t png_number(std::span<const std::byte> bytes, size_t at) {
  return byte_at(bytes, at) << 24 | byte_at(bytes, at + 1) << 16 | byte_at(bytes, at + 2) << 8 |
         byte_at(bytes, at + 3);
}

std::variant<PngHeader, Refusal> scan_png(std::span<const std::byte> bytes,
                                          const DecodeLimits& limits) {
  PngHeader header;
  bool has_header = false;
  bool has_image_data = false;
  int64_t inflated_total = 0;
  for (size_t at = kPngSignatureBytes;;) {
    if (bytes.size() - at < 8) {
      return truncated(bytes.size());
    }
    const uint32_t length = png_number(bytes, at);
    const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
    if (!has_header && (type != "IHDR" || length != kHeaderBytes)) {
      return corrupt("the file does not begin with an IHDR chunk of 13 bytes");
    }
    if (length > kLongestChunk) {
      return corrupt(str_cat("a chunk claims ", length, " bytes"));
    }
    if (bytes.size() - at < kPngChunkOverhead + length) {
      return truncated(bytes.size());
    }
    const std::span<const std::byte> data = bytes.subspan(at + 8, length);
    if (!has_header) {
      if (std::optional<Refusal> refusal = check_ihdr(data, limits, header)) {
        return *std::move(refusal);
      }
      has_header = true;
    }
    has_image_data = has_image_data || type == "IDAT";
    if (type == "eXIf") {
      header.exif_orientation = exif_orientation(data);
    }
    if (const auto stream = compressed_part(type, data); !stream.empty()) {
      const int64_t inflated = inflated_bytes(stream, kMaxInflatedChunk);
      inflated_total += inflated;
      if (inflated > kMaxInflatedChunk || inflated_total > kMaxInflatedTotal) {
        return corrupt(str_cat("its ", type, " chunks inflate to more than ", kMaxInflatedChunk,
                               " bytes each or ", kMaxInflatedTotal, " bytes together"));
      }
    }
    if (type == "IEND") {
      break;
    }
    at += kPngChunkOverhead + length;
  }
  if (!has_image_data) {
    return corrupt("there is no image data (IDAT chunk)");
  }
  return header;
}

}  // namespace tessera::intake
