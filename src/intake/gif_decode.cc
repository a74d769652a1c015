#include "intake/gif_decode.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "intake/gif_strings.h"
#include "intake/limits.h"
#include "intake/pixel_rows.h"

namespace tessera::intake {
namespace {

using image::Image;
using image::Rgb;

constexpr int kNoIndex = -1;
constexpr int kLeastCodeBits = 2;  // GIF89a, appendix F; with fewer, codes grow in no agreed way
constexpr int kMostCodeBits = 8;

// giflib's file, what is left of it, and why it gave no more bytes.
struct Reader {
  GifFileType* gif = nullptr;
  std::span<const std::byte> left;
  const Deadline& deadline;
  bool is_exhausted = false;
  bool is_late = false;

  Reader(std::span<const std::byte> bytes, const Deadline& when) : left(bytes), deadline(when) {}
  ~Reader() { DGifCloseFile(gif, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

// giflib asks for a few bytes or one block of at most 255 at a time, so that this is the place for
// the deadline of everything that it reads.
int on_read(GifFileType* gif, GifByteType* to, int count) {
  Reader& reader = *static_cast<Reader*>(gif->UserData);
  const auto wanted = static_cast<size_t>(count);
  reader.is_late = reader.deadline.is_over();
  reader.is_exhausted = wanted > reader.left.size();
  if (reader.is_late || reader.is_exhausted) {
    return 0;
  }
  std::memcpy(to, reader.left.data(), wanted);
  reader.left = reader.left.subspan(wanted);
  return count;
}

Refusal corrupt(std::string_view what) {
  return {Fault::corrupt, str_cat("GIF: ", what, "; re-encode the picture")};
}

// After a call of giflib failed. `what`: the reason if neither bytes, time nor memory ran out.
Refusal refusal_of(const Reader& reader, std::string_view what) {
  if (reader.is_late) {
    return refuse_late("GIF");
  }
  if (reader.is_exhausted) {
    return {Fault::truncated,
            "GIF: the file ends before the picture does or inside a block; send the whole file"};
  }
  if (reader.gif != nullptr && reader.gif->Error == D_GIF_ERR_NOT_ENOUGH_MEM) {
    throw Error(ErrorCode::out_of_memory, "no memory for a GIF picture; close other programs");
  }
  return corrupt(what);
}

// Nothing if the blocks of an extension were read. The transparent index of a graphic control
// extension goes to `transparent`. Pillow keeps an index that a second extension takes back.
std::optional<Refusal> read_extension(Reader& reader, const image::Policy& policy,
                                      int& transparent) {
  int kind = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(reader.gif, &kind, &block) == GIF_ERROR) {
    return refusal_of(reader, "a damaged extension");
  }
  if (kind == GRAPHICS_EXT_FUNC_CODE) {
    const int size = block == nullptr ? 0 : block[0];  // then flags, delay (2 bytes), index
    if (size < 4) {
      return corrupt(str_cat("a graphic control extension of ", size, " bytes, expected 4"));
    }
    if ((block[1] & 1U) != 0) {
      transparent = block[4];
    } else if (policy.gif == image::GifRule::recipe) {
      transparent = kNoIndex;
    }
  }
  while (block != nullptr) {
    if (DGifGetExtensionNext(reader.gif, &block) == GIF_ERROR) {
      return refusal_of(reader, "a damaged extension");
    }
  }
  return std::nullopt;
}

struct Frame {
  image::Box box;  // on the screen, perhaps beyond its edges
  bool is_interlaced = false;
  int code_bits = 0;           // of the first LZW codes, less one
  int transparent = kNoIndex;  // palette index
};

// Reads up to the pixels of the first frame. Bytes between records are skipped, as Pillow does.
std::variant<Frame, Refusal> find_frame(Reader& reader, const image::Policy& policy) {
  Frame frame;
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    const int status = DGifGetRecordType(reader.gif, &record);
    if (status == GIF_ERROR && (reader.is_late || reader.is_exhausted)) {
      return refusal_of(reader, "");
    }
    if (record == TERMINATE_RECORD_TYPE) {
      return corrupt("the file has no picture");
    }
    if (record == EXTENSION_RECORD_TYPE) {
      if (std::optional<Refusal> refusal = read_extension(reader, policy, frame.transparent)) {
        return *std::move(refusal);
      }
    }
    if (record == IMAGE_DESC_RECORD_TYPE) {
      break;
    }
  }
  const bool is_read = DGifGetImageDesc(reader.gif) == GIF_OK;
  frame.code_bits = std::to_integer<int>(*(reader.left.data() - 1));  // what giflib read last
  if (!is_read || frame.code_bits < kLeastCodeBits) {
    return refusal_of(reader, str_cat("LZW codes of ", frame.code_bits, " bits, expected ",
                                      kLeastCodeBits, " to ", kMostCodeBits));
  }
  const GifImageDesc& description = reader.gif->Image;
  frame.box = {description.Left, description.Top, description.Width, description.Height};
  frame.is_interlaced = description.Interlace;
  return frame;
}

// Whether every entry is the grey of its own index.
bool is_grey_ramp(const ColorMapObject& map) {
  for (int i = 0; i < map.ColorCount; ++i) {
    const GifColorType& colour = map.Colors[i];
    if (colour.Red != i || colour.Green != i || colour.Blue != i) {
      return false;
    }
  }
  return true;
}

struct Palette {
  std::string_view mode;  // Pillow's: "P", or "L" for a grey ramp or no palette
  std::array<Rgb, 256> colours{};
  std::array<uint8_t, 256> alphas{};
};

// The local palette goes before the global one. In Pillow's "L" an index is its own grey, but a
// local ramp shows the colours of the global palette. An index beyond the palette is black in
// Pillow, transparent where the screen is.
std::optional<Palette> read_palette(const GifFileType& gif, const image::Policy& policy,
                                    int transparent) {
  const ColorMapObject* global = gif.SColorMap;
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : global;
  if (policy.gif == image::GifRule::recipe && map == nullptr) {
    return std::nullopt;
  }
  Palette palette;
  palette.mode = map != nullptr && !is_grey_ramp(*map) ? "P" : "L";
  if (palette.mode == "L" && policy.gif == image::GifRule::pillow) {
    map = global != nullptr && !is_grey_ramp(*global) ? global : nullptr;
  }
  for (int i = 0; i < 256; ++i) {
    Rgb& colour = palette.colours[static_cast<size_t>(i)];
    uint8_t& alpha = palette.alphas[static_cast<size_t>(i)];
    const auto grey = static_cast<uint8_t>(i);
    const bool has_colour = map == nullptr || i < map->ColorCount;
    if (map == nullptr) {
      colour = {grey, grey, grey};
    } else if (has_colour) {
      colour = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
    }
    const bool is_opaque = has_colour || policy.gif == image::GifRule::pillow;
    alpha = is_opaque && i != transparent ? 255 : 0;
  }
  return palette;
}

struct Pass {
  int64_t first;  // row of the frame
  int64_t step;
};
constexpr Pass kPlain[] = {{0, 1}};
constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};

// Pixels of the frame, as they come, to rows of the picture. What lies beyond its edges is left
// out.
class FrameRows {
 public:
  FrameRows(const Frame& frame, RowWriter& writer, Image& out)
      : box_(frame.box),
        passes_(frame.is_interlaced ? std::span<const Pass>(kInterlaced) : kPlain),
        writer_(writer),
        out_(out),
        row_(static_cast<size_t>(frame.box.width)) {}

  bool is_complete() const { return passes_.empty(); }

  void put(std::span<const uint8_t> pixels) {
    while (!pixels.empty() && !is_complete()) {
      const size_t count = std::min(pixels.size(), row_.size() - have_);
      std::memcpy(row_.data() + have_, pixels.data(), count);
      pixels = pixels.subspan(count);
      have_ += count;
      if (have_ == row_.size()) {
        write_row();
        next_row();
      }
    }
  }

 private:
  void write_row() {
    const int64_t y = box_.y + y_;
    const int64_t columns = std::min(box_.width, out_.width() - box_.x);
    if (y < out_.height() && columns > 0) {
      writer_.write(row_.data(), columns, out_.row(y) + Image::kChannels * box_.x);
    }
  }

  void next_row() {
    have_ = 0;
    y_ += passes_.front().step;
    while (!passes_.empty() && y_ >= box_.height) {
      passes_ = passes_.subspan(1);
      y_ = passes_.empty() ? 0 : passes_.front().first;
    }
  }

  image::Box box_;
  std::span<const Pass> passes_;  // the one under way and those that follow
  RowWriter& writer_;
  Image& out_;
  std::vector<uint8_t> row_;
  size_t have_ = 0;  // pixels of row_
  int64_t y_ = 0;    // row of the frame
};

std::optional<Refusal> read_pixels(Reader& reader, int code_bits, FrameRows& rows) {
  GifStrings strings(code_bits);
  while (!rows.is_complete()) {
    int code = 0;
    if (DGifGetLZCodes(reader.gif, &code) == GIF_ERROR) {
      return refusal_of(reader, "the pixels end before the last row");
    }
    if (code < 0) {
      return corrupt("the pixels end before the last row");
    }
    if (code == strings.clear_code()) {
      strings.reset();
      continue;
    }
    const std::span<const uint8_t> pixels = strings.expand(code);
    if (pixels.empty()) {
      return corrupt("an LZW code that stands for no pixels");
    }
    rows.put(pixels);
  }
  for (GifByteType* block = nullptr;;) {
    if (DGifGetCodeNext(reader.gif, &block) == GIF_ERROR) {
      return refusal_of(reader, "no end of the pixels");
    }
    if (block == nullptr) {
      return std::nullopt;
    }
  }
}

// A file that ends inside one of the records after the first frame is refused as truncated. The
// trailer may be missing, and what is no record ends the file.
std::optional<Refusal> skip_rest(Reader& reader) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(reader.gif, &record) == GIF_ERROR || record == TERMINATE_RECORD_TYPE) {
      return reader.is_late ? std::optional(refuse_late("GIF")) : std::nullopt;
    }
    GifByteType* block = nullptr;
    int kind = 0;
    bool is_read = record == EXTENSION_RECORD_TYPE
                       ? DGifGetExtension(reader.gif, &kind, &block) == GIF_OK
                       : DGifGetImageHeader(reader.gif) == GIF_OK &&
                             DGifGetCodeNext(reader.gif, &block) == GIF_OK;
    while (is_read && block != nullptr) {
      is_read = DGifGetCodeNext(reader.gif, &block) == GIF_OK;
    }
    if (!is_read) {
      return reader.is_late || reader.is_exhausted ? std::optional(refusal_of(reader, ""))
                                                   : std::nullopt;
    }
  }
}

// False if the deadline is over.
bool fill_uncovered(const image::Box& frame, RowWriter& screen, const Deadline& deadline,
                    Image& out) {
  const std::vector<uint8_t> indices(static_cast<size_t>(out.width()));
  const auto fill = [&](int64_t y, int64_t begin, int64_t end) {
    if (begin < end) {
      screen.write(indices.data(), end - begin, out.row(y) + Image::kChannels * begin);
    }
  };
  for (int64_t y = 0; y < out.height(); ++y) {
    if (deadline.is_over()) {
      return false;
    }
    const bool is_beside = y >= frame.y && y < frame.y + frame.height;
    fill(y, 0, is_beside ? std::min(frame.x, out.width()) : out.width());
    fill(y, is_beside ? frame.x + frame.width : out.width(), out.width());
  }
  return true;
}

// Pillow's uncovered pixels have the transparent index, or index 0 if there is none.
void set_screen_colour(const Palette& palette, const image::Policy& policy, int transparent,
                       RowWriter& screen) {
  const auto index = static_cast<size_t>(std::max(transparent, 0));
  if (policy.gif == image::GifRule::recipe) {
    screen.set_colour(0, {}, 0);
  } else {
    screen.set_colour(0, palette.colours[index], palette.alphas[index]);
  }
}

}  // namespace

DecodeResult decode_gif(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const image::Policy& policy = options.policy;
  Reader reader(bytes, options.deadline);
  reader.gif = DGifOpen(&reader, on_read, nullptr);
  if (reader.gif == nullptr) {
    return refusal_of(reader, "a damaged header");
  }
  std::variant<Frame, Refusal> found = find_frame(reader, policy);
  if (Refusal* refusal = std::get_if<Refusal>(&found)) {
    return std::move(*refusal);
  }
  const Frame& frame = std::get<Frame>(found);
  image::Size screen_size{reader.gif->SWidth, reader.gif->SHeight};
  if (policy.gif == image::GifRule::pillow) {  // Pillow's screen grows with the frame
    screen_size.width = std::max(screen_size.width, frame.box.x + frame.box.width);
    screen_size.height = std::max(screen_size.height, frame.box.y + frame.box.height);
  }
  for (const image::Size size : {screen_size, {frame.box.width, frame.box.height}}) {
    if (std::optional<Refusal> refusal =
            check_header_size("GIF", size.width, size.height, options.limits)) {
      return *std::move(refusal);
    }
  }
  const std::optional<Palette> palette = read_palette(*reader.gif, policy, frame.transparent);
  if (!palette.has_value()) {
    return corrupt("there is no palette");
  }
  RowWriter screen(RowFormat::indexed8, policy);
  RowWriter writer(RowFormat::indexed8, policy);
  set_screen_colour(*palette, policy, frame.transparent, screen);
  for (size_t i = 0; i < palette->colours.size(); ++i) {
    writer.set_colour(static_cast<uint8_t>(i), palette->colours[i], palette->alphas[i]);
  }
  Image rgb(screen_size);
  if (!fill_uncovered(frame.box, screen, options.deadline, rgb)) {
    return refuse_late("GIF");
  }
  FrameRows rows(frame, writer, rgb);
  std::optional<Refusal> refusal = read_pixels(reader, frame.code_bits, rows);
  if (!refusal.has_value()) {
    refusal = skip_rest(reader);
  }
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  return DecodedImage{.rgb = std::move(rgb),
                      .format = "GIF",
                      .mode = palette->mode,
                      .has_transparency = screen.has_transparency() || writer.has_transparency(),
                      .has_sixteen_bits = false,
                      .exif_orientation = 1};
}

}  // namespace tessera::intake
