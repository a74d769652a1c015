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
#include "image/geometry.h"
#include "intake/limits.h"
#include "intake/pixel_rows.h"
#include "intake/png_animation.h"
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

RowFormat row_format(const PngHeader& header) {
  const bool is_wide = header.bit_depth == 16;
  switch (header.colour_type) {
    case PNG_COLOR_TYPE_GRAY:
      return is_wide ? RowFormat::grey16 : RowFormat::grey8;
    case PNG_COLOR_TYPE_PALETTE:
      return RowFormat::indexed8;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return is_wide ? RowFormat::grey_alpha16 : RowFormat::grey_alpha8;
    case PNG_COLOR_TYPE_RGB:
      return is_wide ? RowFormat::rgb16 : RowFormat::rgb8;
    default:
      return is_wide ? RowFormat::rgba16 : RowFormat::rgba8;
  }
}

// Rows of libpng to pixels.
struct Rows {
  PngHeader header;
  RowWriter writer;
  const Deadline& deadline;
  bool is_late = false;

  // One byte per sample is what the writer wants; grey is spread to 0..255.
  void unpack(uint8_t* row, int64_t width) const noexcept {
    const uint32_t top = (1U << header.bit_depth) - 1U;
    const uint32_t scale = header.colour_type == PNG_COLOR_TYPE_PALETTE ? 1U : 255U / top;
    for (int64_t x = width - 1; x >= 0; --x) {  // backwards: in place
      const int64_t bit = x * header.bit_depth;
      const int64_t shift = 8 - header.bit_depth - bit % 8;
      row[x] = static_cast<uint8_t>((uint32_t{row[bit / 8]} >> shift & top) * scale);
    }
  }

  void write(uint8_t* row, int64_t width, uint8_t* to, int64_t step) noexcept {
    if (header.bit_depth < 8) {
      unpack(row, width);
    }
    writer.write(row, width, to, step);
  }
};

void read_colours(Reader& reader, RowWriter& writer) {
  png_colorp colours = nullptr;
  int count = 0;
  if (png_get_PLTE(reader.png, reader.info, &colours, &count) == 0) {
    count = 0;
  }
  png_bytep alphas = nullptr;
  int alpha_count = 0;
  png_color_16p key = nullptr;
  if (png_get_tRNS(reader.png, reader.info, &alphas, &alpha_count, &key) == 0) {
    alpha_count = 0;
    key = nullptr;
  }
  for (int i = 0; i < std::min(count, 256); ++i) {
    const uint8_t alpha = alphas != nullptr && i < alpha_count ? alphas[i] : uint8_t{255};
    writer.set_colour(static_cast<uint8_t>(i), {colours[i].red, colours[i].green, colours[i].blue},
                      alpha);
  }
  if (key != nullptr) {
    writer.set_colour_key(key->red, key->green, key->blue);
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

void stop_if_late(Reader& reader, Rows& rows) {
  if (rows.deadline.is_over()) {
    rows.is_late = true;
    png_error(reader.png, "late");
  }
}

// The passes of an interlaced picture are read as they are stored, so that no second copy of the
// picture is needed. libpng leaves out passes without pixels, as this does.
void read_passes(Reader& reader, Rows& rows, uint8_t* row, Image& out) {
  for (const Pass& pass : kPasses) {
    const int64_t columns = (out.width() - pass.x + pass.step_x - 1) / pass.step_x;
    for (int64_t y = pass.y; y < out.height() && columns > 0; y += pass.step_y) {
      stop_if_late(reader, rows);
      png_read_row(reader.png, row, nullptr);
      rows.write(row, columns, out.row(y) + Image::kChannels * pass.x, pass.step_x);
    }
  }
}

// False if libpng gave up; reader.message then says why. No object with a destructor is made here.
bool read_rows(Reader& reader, Rows& rows, uint8_t* row, size_t row_bytes, Image& out) {
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  png_set_read_fn(reader.png, &reader, on_read);
  // The caller has checked sizes; ancillary chunks are skipped unread and so cost no memory.
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(reader.png, 0);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  read_colours(reader, rows.writer);
  if (rows.header.bit_depth == 16) {
    png_set_swap(reader.png);  // to the machine's byte order
  }
  png_read_update_info(reader.png, reader.info);
  if (png_get_rowbytes(reader.png, reader.info) > row_bytes) {
    png_error(reader.png, "the header changed while it was read");
  }
  if (rows.header.is_interlaced) {
    read_passes(reader, rows, row, out);
  } else {
    for (int64_t y = 0; y < out.height(); ++y) {
      stop_if_late(reader, rows);
      png_read_row(reader.png, row, nullptr);
      rows.write(row, out.width(), out.row(y), 1);
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

// The first frame of an animation on its canvas, which is transparent elsewhere.
DecodeResult decode_frame(const FirstFrame& frame, image::Size canvas,
                          const DecodeOptions& options) {
  DecodeResult result = decode_png(frame.file, options);
  DecodedImage* decoded = std::get_if<DecodedImage>(&result);
  if (decoded != nullptr && decoded->rgb.size() != canvas) {
    Image whole(canvas, options.policy.background);
    image::paste(decoded->rgb, frame.place.x, frame.place.y, whole);
    decoded->rgb = std::move(whole);
    decoded->has_transparency = true;
  }
  return result;
}

}  // namespace

DecodeResult decode_png(std::span<const std::byte> bytes, const DecodeOptions& options) {
  std::variant<PngHeader, Refusal> scanned = scan_png(bytes, options.limits);
  if (Refusal* refusal = std::get_if<Refusal>(&scanned)) {
    return std::move(*refusal);
  }
  const PngHeader& header = std::get<PngHeader>(scanned);
  if (options.policy.skips_default_image) {
    const FirstFrame frame = first_frame_behind_default(bytes);
    if (!frame.file.empty()) {
      return decode_frame(frame, {header.width, header.height}, options);
    }
  }
  Rows rows{.header = header,
            .writer = RowWriter(row_format(header), options.policy),
            .deadline = options.deadline};
  Image rgb({header.width, header.height});
  std::vector<uint8_t> row(static_cast<size_t>(rgb.width() * kMostPixelBytes));
  Reader reader;
  reader.left = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  reader.info = reader.png == nullptr ? nullptr : png_create_info_struct(reader.png);
  if (reader.info == nullptr) {
    throw Error(ErrorCode::out_of_memory, "cannot start libpng; close other programs");
  }
  if (!read_rows(reader, rows, row.data(), row.size(), rgb)) {
    return rows.is_late ? refuse_late("PNG") : refusal_of(reader.message.data());
  }
  return DecodedImage{.rgb = std::move(rgb),
                      .format = "PNG",
                      .mode = pillow_mode(header),
                      .has_transparency = rows.writer.has_transparency(),
                      .has_sixteen_bits = header.bit_depth == 16,
                      .exif_orientation = header.exif_orientation};
}

}  // namespace tessera::intake
