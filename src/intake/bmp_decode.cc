#include "intake/bmp_decode.h"

#include <optional>
#include <utility>
#include <vector>

#include "intake/bmp_header.h"
#include "intake/bmp_rle.h"
#include "intake/limits.h"
#include "intake/pixel_rows.h"

namespace tessera::intake {
namespace {

using image::Image;

RowFormat row_format(const BmpHeader& header) {
  switch (header.pixels) {
    case BmpPixels::indexed:
    case BmpPixels::rle:
      return RowFormat::indexed8;
    case BmpPixels::bits_555:
    case BmpPixels::bits_565:
      return RowFormat::rgb8;
    case BmpPixels::bytes:
      break;
  }
  return header.bytes.alpha >= 0 ? RowFormat::rgba8 : RowFormat::rgb8;
}

RowWriter make_writer(const BmpHeader& header, const image::Policy& policy) {
  RowWriter writer(row_format(header), policy);
  for (size_t i = 0; i < header.palette.size(); ++i) {
    writer.set_colour(static_cast<uint8_t>(i), header.palette[i]);
  }
  return writer;
}

void unpack_indexed(const BmpHeader& header, const uint8_t* from, uint8_t* to) {
  const int64_t per_byte = 8 / header.bits;
  const uint32_t mask = (1U << header.bits) - 1U;
  for (int64_t x = 0; x < header.width; ++x) {
    const int64_t shift = 8 - header.bits * (x % per_byte + 1);
    to[x] = static_cast<uint8_t>(uint32_t{from[x / per_byte]} >> shift & mask);
  }
}

void unpack_16(const BmpHeader& header, const uint8_t* from, uint8_t* to) {
  const uint32_t green_bits = header.pixels == BmpPixels::bits_565 ? 6 : 5;
  const uint32_t green_top = (1U << green_bits) - 1U;
  for (int64_t x = 0; x < header.width; ++x, from += 2, to += 3) {
    const uint32_t pixel = from[0] | uint32_t{from[1]} << 8;
    to[0] = static_cast<uint8_t>((pixel >> (5 + green_bits) & 31U) * 255U / 31U);
    to[1] = static_cast<uint8_t>((pixel >> 5 & green_top) * 255U / green_top);
    to[2] = static_cast<uint8_t>((pixel & 31U) * 255U / 31U);
  }
}

void unpack_bytes(const BmpHeader& header, const uint8_t* from, uint8_t* to) {
  const BmpBytes& at = header.bytes;
  for (int64_t x = 0; x < header.width; ++x, from += header.bits / 8) {
    *to++ = from[at.r];
    *to++ = from[at.g];
    *to++ = from[at.b];
    if (at.alpha >= 0) {
      *to++ = from[at.alpha];
    }
  }
}

void unpack(const BmpHeader& header, const uint8_t* from, uint8_t* to) {
  if (header.pixels == BmpPixels::indexed) {
    unpack_indexed(header, from, to);
  } else if (header.pixels == BmpPixels::bytes) {
    unpack_bytes(header, from, to);
  } else {
    unpack_16(header, from, to);
  }
}

uint8_t* stored_row(const BmpHeader& header, int64_t y, Image& out) {
  return out.row(header.is_top_down ? y : header.height - 1 - y);
}

std::optional<Refusal> read_rows(std::span<const std::byte> bytes, const BmpHeader& header,
                                 const Deadline& deadline, RowWriter& writer, Image& out) {
  if (header.pixels == BmpPixels::rle) {
    bool is_late = false;
    std::optional<Refusal> refusal =
        expand_bmp_rle(bytes, header, [&](int64_t y, const uint8_t* entries) {
          writer.write(entries, header.width, stored_row(header, y, out));
          is_late = deadline.is_over();
          return !is_late;
        });
    return is_late ? refuse_late("BMP") : std::move(refusal);
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + header.data_offset;
  std::vector<uint8_t> row(static_cast<size_t>(header.width * pixel_bytes(row_format(header))));
  for (int64_t y = 0; y < header.height; ++y) {
    if (deadline.is_over()) {
      return refuse_late("BMP");
    }
    unpack(header, data + y * header.stride_bytes(), row.data());
    writer.write(row.data(), header.width, stored_row(header, y, out));
  }
  return std::nullopt;
}

}  // namespace

DecodeResult decode_bmp(std::span<const std::byte> bytes, const DecodeOptions& options) {
  std::variant<BmpHeader, Refusal> read = read_bmp_header(bytes, options.limits);
  if (Refusal* refusal = std::get_if<Refusal>(&read)) {
    return std::move(*refusal);
  }
  const BmpHeader& header = std::get<BmpHeader>(read);
  RowWriter writer = make_writer(header, options.policy);
  Image rgb({header.width, header.height});
  if (std::optional<Refusal> refusal = read_rows(bytes, header, options.deadline, writer, rgb)) {
    return *std::move(refusal);
  }
  return DecodedImage{.rgb = std::move(rgb),
                      .format = "BMP",
                      .mode = header.pillow_mode,
                      .has_transparency = writer.has_transparency()};
}

}  // namespace tessera::intake
