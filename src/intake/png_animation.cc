#include "intake/png_animation.h"

#include <zlib.h>

#include <cstdint>
#include <string_view>

#include "intake/png_scan.h"

namespace tessera::intake {
namespace {

constexpr size_t kSequenceNumber = 4;  // before the data of an fdAT chunk

void append_number(std::vector<std::byte>& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    to.push_back(static_cast<std::byte>(value >> shift & 0xffU));
  }
}

void append_chunk(std::vector<std::byte>& to, std::string_view type,
                  std::span<const std::byte> data) {
  append_number(to, static_cast<uint32_t>(data.size()));
  const size_t begin = to.size();
  for (const char c : type) {
    to.push_back(static_cast<std::byte>(c));
  }
  to.insert(to.end(), data.begin(), data.end());
  append_number(to, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(&to[begin]),
                                                static_cast<uInt>(to.size() - begin))));
}

// The header with the frame's size.
std::vector<std::byte> frame_header(std::span<const std::byte> header, const image::Box& place) {
  std::vector<std::byte> out;
  append_number(out, static_cast<uint32_t>(place.width));
  append_number(out, static_cast<uint32_t>(place.height));
  out.insert(out.end(), header.begin() + 8, header.end());
  return out;
}

// Of an fcTL chunk; nothing of it outside the canvas.
bool read_place(std::span<const std::byte> control, std::span<const std::byte> header,
                image::Box& place) {
  if (control.size() < 20) {
    return false;
  }
  place = {.x = png_number(control, 12),
           .y = png_number(control, 16),
           .width = png_number(control, 4),
           .height = png_number(control, 8)};
  return place.width > 0 && place.height > 0 && place.x + place.width <= png_number(header, 0) &&
         place.y + place.height <= png_number(header, 4);
}

}  // namespace

FirstFrame first_frame_behind_default(std::span<const std::byte> bytes) {
  FirstFrame out;
  std::span<const std::byte> header;
  std::span<const std::byte> palette, transparency;
  std::vector<std::byte> file(bytes.begin(), bytes.begin() + kPngSignatureBytes);
  bool is_animated = false;
  bool has_default = false;  // image data before any frame
  bool has_frame = false;
  bool has_frame_data = false;
  for (size_t at = kPngSignatureBytes; bytes.size() - at >= kPngChunkOverhead;) {
    const size_t length = png_number(bytes, at);
    const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
    const std::span<const std::byte> data = bytes.subspan(at + 8, length);
    if (type == "IHDR") {
      header = data;
    } else if (type == "PLTE") {
      palette = data;
    } else if (type == "tRNS") {
      transparency = data;
    } else if (type == "acTL") {
      is_animated = true;
    } else if (type == "IDAT") {
      has_default = true;
    } else if (type == "fcTL") {
      if (!has_default || has_frame) {
        break;  // the default image is the first frame, or the second frame begins
      }
      if (!read_place(data, header, out.place)) {
        return {};
      }
      has_frame = true;
      append_chunk(file, "IHDR", frame_header(header, out.place));
      if (!palette.empty()) {
        append_chunk(file, "PLTE", palette);
      }
      if (!transparency.empty()) {
        append_chunk(file, "tRNS", transparency);
      }
    } else if (type == "fdAT" && has_frame && length >= kSequenceNumber) {
      append_chunk(file, "IDAT", data.subspan(kSequenceNumber));
      has_frame_data = true;
    } else if (type == "IEND") {
      break;
    }
    at += kPngChunkOverhead + length;
  }
  if (!is_animated || !has_frame_data) {
    return {};
  }
  append_chunk(file, "IEND", {});
  out.file = std::move(file);
  return out;
}

}  // namespace tessera::intake
