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
#include "intake/exif.h"
#include "intake/limits.h"
#include "intake/multi_picture.h"
#include "intake/pixel_rows.h"

namespace tessera::intake {
namespace {

constexpr int kMaxScans = 500;  // encoders write about ten; each one walks the whole picture
constexpr unsigned kMarkerBytes = 0xffff;
constexpr int kEndOfFile = -1;  // not a code of libjpeg
constexpr int kTooManyScans = -2;
constexpr int kLate = -3;

// libjpeg reports errors by longjmp into read_header() and read_rows(). Everything that lives
// across the jump is here, outside the frames it unwinds.
struct Reader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  const Deadline* deadline = nullptr;
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
  if (reader_of(info).deadline->is_over()) {
    give_up(reader_of(info), kLate);
  }
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    give_up(reader_of(info), kTooManyScans);
  }
}

void connect(Reader& reader, std::span<const std::byte> bytes, const DecodeOptions& options) {
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
  reader.info.mem->max_memory_to_use = static_cast<long>(options.limits.max_decoder_bytes);
  reader.deadline = &options.deadline;
}

// False if libjpeg gave up. No object with a destructor is made here, nor below.
bool read_header(Reader& reader, std::span<const std::byte> bytes, const DecodeOptions& options) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  reader.info.client_data = &reader;
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&reader.info);
  connect(reader, bytes, options);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, kMarkerBytes);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 2, kMarkerBytes);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

// False if libjpeg gave up. `row` holds one row of the decoder's samples.
bool read_rows(Reader& reader, uint8_t* row, RowWriter& writer, image::Image& out) {
  if (setjmp(reader.jump) != 0) {
    return false;
  }
  jpeg_decompress_struct& info = reader.info;
  info.out_color_space = info.num_components == 1   ? JCS_GRAYSCALE
                         : info.num_components == 3 ? JCS_RGB
                                                    : JCS_CMYK;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    if (reader.deadline->is_over()) {
      give_up(reader, kLate);
    }
    uint8_t* to = out.row(info.output_scanline);
    const bool is_direct = info.out_color_space == JCS_RGB;
    JSAMPROW rows[1] = {is_direct ? to : row};
    jpeg_read_scanlines(&info, rows, 1);
    if (!is_direct) {
      writer.write(row, out.width(), to);
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
    case kLate:
      return refuse_late("JPEG");
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

int orientation_of(const Reader& reader) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (jpeg_saved_marker_ptr marker = reader.info.marker_list; marker != nullptr;
       marker = marker->next) {
    const std::span<const std::byte> data =
        std::as_bytes(std::span(marker->data, marker->data_length));
    const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
    if (marker->marker == JPEG_APP0 + 1 && text.starts_with(kExif)) {
      return exif_orientation(data);
    }
  }
  return 1;
}

}  // namespace

DecodeResult decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options) {
  Reader reader;
  if (!read_header(reader, bytes, options)) {
    return refusal_of(reader, bytes.size());
  }
  const int components = reader.info.num_components;
  const image::Size size{reader.info.image_width, reader.info.image_height};
  if (std::optional<Refusal> refusal =
          check_header_size("JPEG", size.width, size.height, options.limits)) {
    return *std::move(refusal);
  }
  if (components != 1 && components != 3 && components != 4) {
    return Refusal{Fault::unsupported,
                   str_cat("JPEG: ", components,
                           " colour components, expected 1, 3 or 4; re-encode the picture")};
  }
  if (reader.info.arith_code != 0 && options.policy.formats == image::FormatRule::web) {
    return Refusal{Fault::unsupported,
                   str_cat("JPEG: arithmetic coding is not read by policy ", options.policy.name,
                           "; re-encode it as a baseline JPEG or PNG")};
  }
  const std::string_view format = pillow_format(reader);
  const std::string_view mode = components == 1 ? "L" : components == 3 ? "RGB" : "CMYK";
  const int orientation = orientation_of(reader);
  image::Image rgb(size);
  RowWriter writer(components == 1 ? RowFormat::grey8 : RowFormat::cmyk8_inverted, options.policy);
  std::vector<uint8_t> row(static_cast<size_t>(4 * size.width));
  if (!read_rows(reader, row.data(), writer, rgb)) {
    return refusal_of(reader, bytes.size());
  }
  return DecodedImage{
      .rgb = std::move(rgb), .format = format, .mode = mode, .exif_orientation = orientation};
}

}  // namespace tessera::intake
