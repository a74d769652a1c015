#include "intake/jpeg_decode.h"

// jpeglib.h uses FILE; jerror.h depends on what jpeglib.h defines.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "intake/limits.h"
#include "intake/multi_picture.h"

namespace tessera::intake {
namespace {

constexpr int kMaxScans = 500;  // encoders write about ten; each one walks the whole picture
constexpr unsigned kMarkerBytes = 0xffff;
constexpr int kEndOfFile = -1;  // not a code of libjpeg
constexpr int kTooManyScans = -2;

// libjpeg reports errors by longjmp into read_header() and read_rows(). Everything that lives
// across the jump is here, outside the frames it unwinds.
struct Reader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  int error = 0;  // libjpeg's message code, or one of the codes above
  std::array<char, JMSG_LENGTH_MAX> message{};

  Reader() = default;
  ~Reader() { jpeg_destroy_decompress(&info); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

Reader& reader_of(j_common_ptr info) { return *static_cast<Reader*>(info->client_data); }

[[noreturn]] void give_up(Reader& reader, int error) {
  reader.error = error;
  std::longjmp(reader.jump, 1);
}

[[noreturn]] void on_error(j_common_ptr info) {
  Reader& reader = reader_of(info);
  reader.errors.format_message(info, reader.message.data());
  give_up(reader, reader.errors.msg_code);
}

// Warnings after which part of the picture would be invented.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                    code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC)) {
    on_error(info);
  }
}

void on_start(j_decompress_ptr) {}

boolean on_end_of_input(j_decompress_ptr info) {
  give_up(reader_of(reinterpret_cast<j_common_ptr>(info)), kEndOfFile);
}

void on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) {
    return;
  }
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) {
    on_end_of_input(info);
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    give_up(reader_of(info), kTooManyScans);
  }
}

void connect(Reader& reader, std::span<const std::byte> bytes, const DecodeLimits& limits) {
  reader.source.init_source = on_start;
  reader.source.fill_input_buffer = on_end_of_input;
  reader.source.skip_input_data = on_skip;
  reader.source.resync_to_restart = jpeg_resync_to_restart;
  reader.source.term_source = on_start;
  reader.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  reader.source.bytes_in_buffer = bytes.size();
  reader.info.src = &reader.source;
  reader.progress.progress_monitor = on_progress;
  reader.info.progress = &reader.progress;
  reader.info.mem->max_memory_to_use = static_cast<long>(limits.max_decoder_bytes);
}

// False if libjpeg gave up. No object with a destructor is made here, nor below.
bool read_header(Reader& reader, std::span<const std::byte> bytes, const DecodeLimits& limits) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  reader.info.client_data = &reader;
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&reader.info);
  connect(reader, bytes, limits);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, kMarkerBytes);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 2, kMarkerBytes);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

void grey_to_rgb(const uint8_t* from, int64_t width, uint8_t* to) noexcept {
  for (int64_t x = 0; x < width; ++x) {
    std::memset(to + 3 * x, from[x], 3);
  }
}

// muldiv255 of Pillow: a * b / 255, rounded.
uint32_t multiply_255(uint32_t a, uint32_t b) noexcept {
  const uint32_t t = a * b + 128U;
  return ((t >> 8) + t) >> 8;
}

// Samples of a file are inverted: c = 255 - stored. Pillow's cmyk2rgb, (255 - k) * (255 - c) / 255.
void inverted_cmyk_to_rgb(const uint8_t* from, int64_t width, uint8_t* to) noexcept {
  for (int64_t x = 0; x < width; ++x) {
    const uint32_t light = from[4 * x + 3];  // 255 - k
    for (int64_t i = 0; i < 3; ++i) {
      const uint32_t ink = 255U - from[4 * x + i];
      to[3 * x + i] = static_cast<uint8_t>(light - multiply_255(ink, light));
    }
  }
}

// False if libjpeg gave up. `row` holds one row of the decoder's samples.
bool read_rows(Reader& reader, uint8_t* row, image::Image& out) {
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  jpeg_decompress_struct& info = reader.info;
  info.out_color_space = info.num_components == 1   ? JCS_GRAYSCALE
                         : info.num_components == 3 ? JCS_RGB
                                                    : JCS_CMYK;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* to = out.row(info.output_scanline);
    JSAMPROW rows[1] = {info.out_color_space == JCS_RGB ? to : row};
    jpeg_read_scanlines(&info, rows, 1);
    if (info.out_color_space == JCS_GRAYSCALE) {
      grey_to_rgb(row, out.width(), to);
    } else if (info.out_color_space == JCS_CMYK) {
      inverted_cmyk_to_rgb(row, out.width(), to);
    }
  }
  jpeg_finish_decompress(&info);  // reads up to the end marker
  return true;
}

Refusal refusal_of(const Reader& reader, size_t size) {
  const std::string_view message = reader.message.data();
  switch (reader.error) {
    case kEndOfFile:
      return {Fault::truncated, str_cat("JPEG: the file ends after ", size,
                                        " bytes, before the picture does; send the whole file")};
    case kTooManyScans:
      return {Fault::corrupt,
              str_cat("JPEG: more than ", kMaxScans, " scans; re-encode the picture")};
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
    case JERR_NO_BACKING_STORE:
      return {Fault::too_large, str_cat("JPEG: ", message, "; send a smaller picture")};
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
      return {Fault::unsupported,
              str_cat("JPEG: ", message, "; re-encode it as a baseline JPEG or PNG")};
    case JERR_OUT_OF_MEMORY:
      throw Error(ErrorCode::out_of_memory, "no memory for a JPEG picture; close other programs");
    default:
      return {Fault::corrupt, str_cat("JPEG: ", message, "; re-encode the picture")};
  }
}

std::string_view pillow_format(const Reader& reader) {
  constexpr std::string_view kIndex("MPF\0", 4);
  constexpr std::string_view kGainMap = " hdrgm:Version=\"";  // Ultra HDR: Pillow says JPEG
  bool has_several = false;
  for (jpeg_saved_marker_ptr marker = reader.info.marker_list; marker != nullptr;
       marker = marker->next) {
    const std::string_view text(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (marker->marker == JPEG_APP0 + 1 && text.find(kGainMap) != std::string_view::npos) {
      return "JPEG";
    }
    if (marker->marker == JPEG_APP0 + 2 && text.starts_with(kIndex)) {
      has_several = names_several_pictures(
          std::as_bytes(std::span(text.data(), text.size())).subspan(kIndex.size()));
    }
  }
  return has_several ? "MPO" : "JPEG";
}

}  // namespace

DecodeResult decode_jpeg(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  Reader reader;
  if (!read_header(reader, bytes, limits)) {
    return refusal_of(reader, bytes.size());
  }
  const int components = reader.info.num_components;
  const image::Size size{reader.info.image_width, reader.info.image_height};
  if (std::optional<Refusal> refusal = check_header_size("JPEG", size.width, size.height, limits)) {
    return *std::move(refusal);
  }
  if (components != 1 && components != 3 && components != 4) {
    return Refusal{Fault::unsupported,
                   str_cat("JPEG: ", components,
                           " colour components, expected 1, 3 or 4; re-encode the picture")};
  }
  const std::string_view format = pillow_format(reader);
  const std::string_view mode = components == 1 ? "L" : components == 3 ? "RGB" : "CMYK";
  image::Image rgb(size);
  std::vector<uint8_t> row(static_cast<size_t>(4 * size.width));
  if (!read_rows(reader, row.data(), rgb)) {
    return refusal_of(reader, bytes.size());
  }
  return DecodedImage{.rgb = std::move(rgb), .format = format, .mode = mode};
}

}  // namespace tessera::intake
