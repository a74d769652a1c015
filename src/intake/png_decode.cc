#include "intake/png_decode.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "intake/png_scan.h"

namespace tessera::intake {
namespace {

using image::Image;

// libpng reports errors by longjmp into read_rows(). Everything that lives across the jump is here,
// outside the frames it unwinds.
struct Reader {
  std::jmp_buf jump;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> left;  // bytes not read yet
  std::array<char, 96> message{};

  Reader() = default;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  Reader& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader.message.data(), message, reader.message.size() - 1);
  std::longjmp(reader.jump, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  Reader& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader.left.size()) {
    png_error(png, "unexpected end of file");
  }
  std::memcpy(to, reader.left.data(), count);
  reader.left = reader.left.subspan(count);
}

// One row of samples [width, channels] to every `step`-th pixel from `to` on.
struct RowConverter {
  PngHeader header;
  std::array<std::array<uint8_t, 3>, 256> palette{};  // black beyond the file's entries

  void convert(const uint8_t* from, int64_t width, uint8_t* to, int64_t step) const noexcept {
    const int64_t stride = Image::kChannels * step;
    switch (header.colour_type) {
      case PNG_COLOR_TYPE_GRAY:
        return header.bit_depth == 16 ? grey16(from, width, to, stride)
                                      : grey(from, width, to, stride);
      case PNG_COLOR_TYPE_PALETTE:
        return indexed(from, width, to, stride);
      case PNG_COLOR_TYPE_GRAY_ALPHA:
        return samples(from, 2, 0, width, to, stride);
      case PNG_COLOR_TYPE_RGB:
        return samples(from, 3, 1, width, to, stride);
      default:
        return samples(from, 4, 1, width, to, stride);
    }
  }

 private:
  // 1, 2, 4 and 8 bits, packed from the high bit down; the largest value becomes 255.
  uint32_t packed(const uint8_t* from, int64_t x) const noexcept {
    const int64_t depth = header.bit_depth;
    const int64_t bit = x * depth;
    const int64_t shift = 8 - depth - bit % 8;
    return (static_cast<uint32_t>(from[bit / 8]) >> shift) & ((1U << depth) - 1U);
  }

  void grey(const uint8_t* from, int64_t width, uint8_t* to, int64_t stride) const noexcept {
    const uint32_t scale = 255U / ((1U << header.bit_depth) - 1U);
    for (int64_t x = 0; x < width; ++x, to += stride) {
      std::memset(to, static_cast<int>(packed(from, x) * scale), 3);
    }
  }

  static void grey16(const uint8_t* from, int64_t width, uint8_t* to, int64_t stride) noexcept {
    for (int64_t x = 0; x < width; ++x, to += stride) {
      std::memset(to, from[2 * x] != 0 ? 255 : from[2 * x + 1], 3);
    }
  }

  void indexed(const uint8_t* from, int64_t width, uint8_t* to, int64_t stride) const noexcept {
    for (int64_t x = 0; x < width; ++x, to += stride) {
      std::memcpy(to, palette[packed(from, x)].data(), 3);
    }
  }

  // The high bytes of `channels` samples: colour from three of them (channel_step 1) or one (0).
  void samples(const uint8_t* from, int64_t channels, int64_t channel_step, int64_t width,
               uint8_t* to, int64_t stride) const noexcept {
    const int64_t bytes = header.bit_depth / 8;
    for (int64_t x = 0; x < width; ++x, to += stride, from += channels * bytes) {
      to[0] = from[0];
      to[1] = from[channel_step * bytes];
      to[2] = from[2 * channel_step * bytes];
    }
  }
};

void read_palette(Reader& reader, RowConverter& rows) {
  png_colorp colours = nullptr;
  int count = 0;
  if (png_get_PLTE(reader.png, reader.info, &colours, &count) != 0) {
    for (int i = 0; i < std::min(count, 256); ++i) {
      rows.palette[static_cast<size_t>(i)] = {colours[i].red, colours[i].green, colours[i].blue};
    }
  }
}

// Adam7: the first pixel of each pass and the distance between its pixels.
struct Pass {
  int64_t x;
  int64_t y;
  int64_t step_x;
  int64_t step_y;
};
constexpr Pass kPasses[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                            {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

// The passes of an interlaced picture are read as they are stored, so that no second copy of the
// picture is needed. libpng leaves out passes without pixels, as this does.
void read_passes(Reader& reader, const RowConverter& rows, uint8_t* row, Image& out) {
  for (const Pass& pass : kPasses) {
    const int64_t columns = (out.width() - pass.x + pass.step_x - 1) / pass.step_x;
    for (int64_t y = pass.y; y < out.height() && columns > 0; y += pass.step_y) {
      png_read_row(reader.png, row, nullptr);
      rows.convert(row, columns, out.row(y) + Image::kChannels * pass.x, pass.step_x);
    }
  }
}

// False if libpng gave up; reader.message then says why. No object with a destructor is made here.
bool read_rows(Reader& reader, RowConverter& rows, uint8_t* row, size_t row_bytes, Image& out) {
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  png_set_read_fn(reader.png, &reader, on_read);
  // The caller has checked sizes; ancillary chunks are skipped unread and so cost no memory.
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(reader.png, 0);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  read_palette(reader, rows);
  png_read_update_info(reader.png, reader.info);
  if (png_get_rowbytes(reader.png, reader.info) > row_bytes) {
    png_error(reader.png, "the header changed while it was read");
  }
  if (rows.header.is_interlaced) {
    read_passes(reader, rows, row, out);
  } else {
    for (int64_t y = 0; y < out.height(); ++y) {
      png_read_row(reader.png, row, nullptr);
      rows.convert(row, out.width(), out.row(y), 1);
    }
  }
  png_read_end(reader.png, nullptr);
  return true;
}

std::string_view pillow_mode(const PngHeader& header) {
  switch (header.colour_type) {
    case PNG_COLOR_TYPE_GRAY:
      return header.bit_depth == 1 ? "1" : header.bit_depth == 16 ? "I;16" : "L";
    case PNG_COLOR_TYPE_RGB:
      return "RGB";
    case PNG_COLOR_TYPE_PALETTE:
      return "P";
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return header.bit_depth == 16 ? "RGBA" : "LA";
    default:
      return "RGBA";
  }
}

Refusal refusal_of(std::string_view message) {
  // libpng's words for a deflate stream that is well formed but too short.
  if (message == "Not enough image data") {
    return {Fault::truncated, "PNG: the image data ends before the last row; send the whole file"};
  }
  return {Fault::corrupt, str_cat("PNG: ", message, "; re-encode the picture")};
}

}  // namespace

DecodeResult decode_png(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  std::variant<PngHeader, Refusal> scanned = scan_png(bytes, limits);
  if (Refusal* refusal = std::get_if<Refusal>(&scanned)) {
    return std::move(*refusal);
  }
  RowConverter rows{.header = std::get<PngHeader>(scanned)};
  Image rgb({rows.header.width, rows.header.height});
  constexpr int64_t kMostSampleBytes = 8;  // RGBA, 16 bits
  std::vector<uint8_t> row(static_cast<size_t>(rgb.width() * kMostSampleBytes));
  Reader reader;
  reader.left = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  reader.info = reader.png == nullptr ? nullptr : png_create_info_struct(reader.png);
  if (reader.info == nullptr) {
    throw Error(ErrorCode::out_of_memory, "cannot start libpng; close other programs");
  }
  if (!read_rows(reader, rows, row.data(), row.size(), rgb)) {
    return refusal_of(reader.message.data());
  }
  return DecodedImage{.rgb = std::move(rgb), .format = "PNG", .mode = pillow_mode(rows.header)};
}

}  // namespace tessera::intake
