#include "intake/webp_decode.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "intake/exif.h"
#include "intake/limits.h"
#include "intake/pixel_rows.h"

namespace tessera::intake {
namespace {

using image::Image;

constexpr size_t kRiffHeaderBytes = 8;  // "RIFF" and the number of bytes that follow
// The demuxer takes 32 bytes for each chunk, and a chunk may have as little as 8.
constexpr int64_t kDemuxerBytesPerByte = 4;
constexpr int64_t kRgbaBytes = 4;
// The header of a lossless frame is read again with every piece until it is complete, which bounds
// the number from above.
constexpr size_t kPieces = 16;

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
struct DeleteDecoder {
  void operator()(WebPIDecoder* decoder) const { WebPIDelete(decoder); }
};

struct FrameIterator {
  WebPIterator frame{};

  FrameIterator() = default;
  ~FrameIterator() { WebPDemuxReleaseIterator(&frame); }
  FrameIterator(const FrameIterator&) = delete;
  FrameIterator& operator=(const FrameIterator&) = delete;
};

const uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

Refusal corrupt(std::string_view what) {
  return {Fault::corrupt, str_cat("WebP: ", what, "; re-encode the picture")};
}

[[noreturn]] void throw_no_memory() {
  throw Error(ErrorCode::out_of_memory, "no memory for a WebP picture; close other programs");
}

// The RIFF container without what follows it, or nothing if the file ends before it does.
std::optional<std::span<const std::byte>> riff_container(std::span<const std::byte> bytes) {
  uint64_t size = kRiffHeaderBytes;
  for (size_t i = 0; i < 4; ++i) {
    size += std::to_integer<uint64_t>(bytes[4 + i]) << 8 * i;
  }
  if (size > bytes.size()) {
    return std::nullopt;
  }
  return bytes.first(static_cast<size_t>(size));
}

std::optional<Refusal> check_memory(int64_t bytes, const DecodeLimits& limits) {
  if (bytes <= limits.max_decoder_bytes) {
    return std::nullopt;
  }
  return Refusal{Fault::too_large,
                 str_cat("WebP: decoding may take ", bytes, " bytes of memory, the limit is ",
                         limits.max_decoder_bytes, "; send a smaller picture")};
}

// Memory for the pixels of a frame besides the picture itself.
int64_t frame_bytes(const WebPBitstreamFeatures& frame, bool has_alpha) {
  constexpr int kLossless = 2;
  // libwebp keeps a lossless frame as ARGB, and decodes compressed alpha of a lossy one in the same
  // way to a plane of its own.
  const int64_t library = frame.format == kLossless ? 4 : frame.has_alpha != 0 ? 5 : 0;
  return (library + (has_alpha ? kRgbaBytes : 0)) * frame.width * frame.height;
}

// Decodes a frame (an optional ALPH chunk and a VP8 or VP8L chunk) to `to`, rows `stride` bytes
// apart. Nothing if all of it was decoded.
std::optional<Refusal> decode_frame(std::span<const uint8_t> frame, WEBP_CSP_MODE format,
                                    std::span<uint8_t> to, int64_t stride,
                                    const Deadline& deadline) {
  const std::unique_ptr<WebPIDecoder, DeleteDecoder> decoder(
      WebPINewRGB(format, to.data(), to.size(), static_cast<int>(stride)));
  if (decoder == nullptr) {
    throw_no_memory();
  }
  const size_t piece = frame.size() / kPieces + 1;
  VP8StatusCode status = VP8_STATUS_SUSPENDED;
  for (size_t fed = 0; fed < frame.size() && status == VP8_STATUS_SUSPENDED;) {
    if (deadline.is_over()) {
      return refuse_late("WebP");
    }
    fed = std::min(fed + piece, frame.size());
    status = WebPIUpdate(decoder.get(), frame.data(), fed);
  }
  switch (status) {
    case VP8_STATUS_OK:
      return std::nullopt;
    case VP8_STATUS_OUT_OF_MEMORY:
      throw_no_memory();
    case VP8_STATUS_SUSPENDED:
      return corrupt("the image data ends before the last row");
    default:
      return corrupt("damaged image data");
  }
}

int read_orientation(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk{};
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    orientation = exif_orientation(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

// The canvas with the frame on it.
struct Canvas {
  Image rgb;
  bool has_transparency = false;
};

bool covers(const WebPIterator& frame, image::Size canvas) {
  return frame.width == canvas.width && frame.height == canvas.height;
}

std::variant<Canvas, Refusal> draw_opaque(const WebPIterator& frame, image::Size size,
                                          const DecodeOptions& options) {
  Image rgb = covers(frame, size) ? Image(size) : Image(size, image::Rgb{});
  uint8_t* first = rgb.row(frame.y_offset) + Image::kChannels * frame.x_offset;
  const int64_t bytes = (frame.height - 1) * rgb.row_bytes() + frame.width * Image::kChannels;
  std::optional<Refusal> refusal =
      decode_frame({frame.fragment.bytes, frame.fragment.size}, MODE_RGB,
                   {first, static_cast<size_t>(bytes)}, rgb.row_bytes(), options.deadline);
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  return Canvas{.rgb = std::move(rgb), .has_transparency = false};
}

std::variant<Canvas, Refusal> draw_with_alpha(const WebPIterator& frame, image::Size size,
                                              const DecodeOptions& options) {
  const int64_t stride = frame.width * kRgbaBytes;
  AlignedBuffer rgba(stride * frame.height);
  auto* pixels = reinterpret_cast<uint8_t*>(rgba.data());
  std::optional<Refusal> refusal =
      decode_frame({frame.fragment.bytes, frame.fragment.size}, MODE_RGBA,
                   {pixels, static_cast<size_t>(rgba.bytes())}, stride, options.deadline);
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  Image rgb(size);
  RowWriter writer(RowFormat::rgba8, options.policy);
  if (!covers(frame, size)) {
    const std::vector<uint8_t> clear(static_cast<size_t>(kRgbaBytes * size.width));
    for (int64_t y = 0; y < size.height; ++y) {
      writer.write(clear.data(), size.width, rgb.row(y));
    }
  }
  for (int64_t y = 0; y < frame.height; ++y) {
    if (options.deadline.is_over()) {
      return refuse_late("WebP");
    }
    writer.write(pixels + y * stride, frame.width,
                 rgb.row(frame.y_offset + y) + Image::kChannels * frame.x_offset);
  }
  return Canvas{.rgb = std::move(rgb), .has_transparency = writer.has_transparency()};
}

}  // namespace

DecodeResult decode_webp(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const std::optional<std::span<const std::byte>> riff = riff_container(bytes);
  if (!riff.has_value()) {
    return Refusal{Fault::truncated,
                   str_cat("WebP: the file ends after ", bytes.size(),
                           " bytes, before its RIFF container does; send the whole file")};
  }
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data_of(*riff), riff->size(), &features) != VP8_STATUS_OK) {
    return corrupt("a damaged header");
  }
  const image::Size size{features.width, features.height};  // of the canvas
  std::optional<Refusal> refusal =
      check_header_size("WebP", size.width, size.height, options.limits);
  if (!refusal.has_value()) {
    refusal =
        check_memory(kDemuxerBytesPerByte * static_cast<int64_t>(riff->size()), options.limits);
  }
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  const WebPData data{data_of(*riff), riff->size()};
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  FrameIterator first;
  const WebPIterator& frame = first.frame;
  WebPBitstreamFeatures frame_features{};
  // The demuxer has checked that the frame lies on the canvas.
  if (demuxer == nullptr || WebPDemuxGetFrame(demuxer.get(), 1, &first.frame) == 0 ||
      WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &frame_features) !=
          VP8_STATUS_OK) {
    return corrupt("damaged chunks, or none with a picture");
  }
  const bool has_alpha = features.has_alpha != 0;
  refusal = check_memory(frame_bytes(frame_features, has_alpha), options.limits);
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  // What the frame leaves uncovered is transparent black, so black where the file has no alpha.
  std::variant<Canvas, Refusal> drawn =
      has_alpha ? draw_with_alpha(frame, size, options) : draw_opaque(frame, size, options);
  if (Refusal* failure = std::get_if<Refusal>(&drawn)) {
    return std::move(*failure);
  }
  Canvas& canvas = std::get<Canvas>(drawn);
  return DecodedImage{.rgb = std::move(canvas.rgb),
                      .format = "WEBP",
                      .mode = has_alpha ? "RGBA" : "RGB",
                      .has_transparency = canvas.has_transparency,
                      .has_sixteen_bits = false,
                      .exif_orientation = read_orientation(demuxer.get())};
}

}  // namespace tessera::intake
