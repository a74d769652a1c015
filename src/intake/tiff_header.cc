#include "intake/tiff_header.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "intake/limits.h"
#include "intake/tiff_tags.h"

namespace tessera::intake {
namespace {

// Tiles may be larger than a small picture, but not without bound.
constexpr int64_t kFreeTileSide = 2048;
constexpr int64_t kMostSamples = 6;  // Pillow reads no picture with more

struct CodecName {
  uint32_t value;
  std::string_view name;
};

constexpr CodecName kRefusedCodecs[] = {
    {6, "old-style JPEG"},
    {9, "JBIG"},
    {10, "JBIG"},
    {32766, "NeXT"},
    {32771, "CCITT RLE in words"},
    {32809, "ThunderScan"},
    {32908, "PixarFilm"},
    {32909, "PixarLog"},
    {34661, "JBIG"},
    {34676, "SGILog"},
    {34677, "SGILog24"},
    {34712, "JPEG 2000"},
    {34887, "LERC"},
    {34892, "lossy JPEG"},
    {34925, "LZMA"},
    {50000, "ZSTD"},
    {50001, "WebP"},
    {50002, "JPEG XL"},
};

std::string codec_name(uint32_t value) {
  for (const CodecName& codec : kRefusedCodecs) {
    if (codec.value == value) {
      return std::string(codec.name);
    }
  }
  return str_cat(value);
}

bool is_read_codec(uint32_t value) {
  switch (static_cast<TiffCompression>(value)) {
    case TiffCompression::none:
    case TiffCompression::ccitt_rle:
    case TiffCompression::ccitt_group3:
    case TiffCompression::ccitt_group4:
    case TiffCompression::lzw:
    case TiffCompression::jpeg:
    case TiffCompression::adobe_deflate:
    case TiffCompression::packbits:
    case TiffCompression::deflate:
      return true;
  }
  return false;
}

std::string_view colour_name(uint32_t value) {
  switch (value) {
    case 4:
      return " (transparency mask)";
    case 8:
    case 9:
    case 10:
      return " (Lab)";
    case 32803:
      return " (colour filter array)";
    case 32844:
    case 32845:
      return " (LogL or LogLuv)";
    default:
      return "";
  }
}

// Bytes out of one byte, at most. So a short file cannot take the memory of a large picture.
int64_t most_expansion(TiffCompression codec) {
  switch (codec) {
    case TiffCompression::packbits:
      return 64;  // 128 bytes of 2
    case TiffCompression::deflate:
    case TiffCompression::adobe_deflate:
      return 1032;  // 258 bytes of 2 bits
    case TiffCompression::lzw:
      return 2560;  // 3838 bytes, the longest entry, of 12 bits
    default:
      return INT32_MAX;
  }
}

Refusal corrupt(const std::string& detail) {
  return {Fault::corrupt, str_cat("TIFF: ", detail, "; re-encode the picture")};
}

Refusal unsupported(const std::string& detail) {
  return {Fault::unsupported, str_cat("TIFF: ", detail, "; convert to PNG")};
}

Refusal too_large(const std::string& detail) {
  return {Fault::too_large, str_cat("TIFF: ", detail, "; send a smaller picture")};
}

// Fills a header tag by tag.
class Parser {
 public:
  Parser(const TiffTags& tags, const DecodeLimits& limits) : tags_(tags), limits_(limits) {}

  std::variant<TiffHeader, Refusal> run() {
    header_.is_big_endian = tags_.is_big_endian();
    for (const auto step :
         {&Parser::read_size, &Parser::read_codec, &Parser::read_samples, &Parser::read_depth,
          &Parser::read_blocks, &Parser::check_tiles, &Parser::check_memory, &Parser::check_data}) {
      if (std::optional<Refusal> refusal = (this->*step)()) {
        return *std::move(refusal);
      }
    }
    header_.orientation = tags_.orientation();
    return header_;
  }

 private:
  std::optional<Refusal> read_size() {
    const std::optional<uint32_t> width = tags_.value(TiffTag::image_width);
    const std::optional<uint32_t> height = tags_.value(TiffTag::image_length);
    if (!width.has_value() || !height.has_value()) {
      return corrupt("the directory has no width or height");
    }
    header_.width = *width;
    header_.height = *height;
    return check_header_size("TIFF", header_.width, header_.height, limits_);
  }

  std::optional<Refusal> read_codec() {
    const uint32_t codec = tags_.value(TiffTag::compression).value_or(1);
    if (!is_read_codec(codec)) {
      return unsupported(str_cat("compression ", codec_name(codec), " is not read"));
    }
    header_.compression = static_cast<TiffCompression>(codec);
    const uint32_t colour = tags_.value(TiffTag::photometric).value_or(0);
    if (colour == 4 || colour > 6) {
      return unsupported(
          str_cat("photometric interpretation ", colour, colour_name(colour), " is not read"));
    }
    header_.colour = static_cast<TiffColour>(colour);
    const uint32_t fill_order = tags_.value(TiffTag::fill_order).value_or(1);
    const uint32_t planes = tags_.value(TiffTag::planar_configuration).value_or(1);
    for (const uint32_t one_or_two : {fill_order, planes}) {
      if (one_or_two != 1 && one_or_two != 2) {
        return corrupt(str_cat("fill order ", fill_order, " and planar configuration ", planes,
                               ", expected 1 or 2"));
      }
    }
    header_.is_lsb_first = fill_order == 2;
    header_.is_planar = planes == 2;
    return std::nullopt;
  }

  std::optional<Refusal> read_samples() {
    header_.samples = tags_.value(TiffTag::samples_per_pixel).value_or(1);
    if (header_.samples < 1) {
      return corrupt("no samples per pixel");
    }
    if (header_.samples > kMostSamples) {
      return unsupported(
          str_cat(header_.samples, " samples per pixel, at most ", kMostSamples, " are read"));
    }
    header_.extra = tags_.values(TiffTag::extra_samples, kMostSamples);
    const std::vector<uint32_t> formats = tags_.values(TiffTag::sample_format, kMostSamples);
    const uint32_t format = formats.empty() ? 1 : formats.front();
    if (format < 1 || format > 3 ||
        std::count(formats.begin(), formats.end(), format) !=
            static_cast<int64_t>(formats.size())) {
      return unsupported(str_cat("sample format ", list_text<uint32_t>(formats), " is not read"));
    }
    header_.sample = static_cast<TiffSample>(format);
    if (header_.colour == TiffColour::palette) {
      constexpr int64_t kMostEntries = 768;  // 256 of each colour
      header_.colour_map = tags_.values(TiffTag::colour_map, kMostEntries);
      if (header_.colour_map.empty() || tags_.count(TiffTag::colour_map) > kMostEntries) {
        return corrupt(str_cat("a colour map of ", tags_.count(TiffTag::colour_map),
                               " values, expected 1 to ", kMostEntries));
      }
    }
    if (header_.colour == TiffColour::ycbcr) {
      const std::vector<uint32_t> factors = tags_.values(TiffTag::ycbcr_subsampling, 2);
      header_.is_subsampled = factors != std::vector<uint32_t>{1, 1};
    }
    return std::nullopt;
  }

  std::optional<Refusal> read_depth() {
    std::vector<uint32_t> depths = tags_.values(TiffTag::bits_per_sample, kMostSamples);
    if (depths.empty()) {
      depths = {1};
    }
    // One value may stand for all samples; surplus ones do not count.
    if (depths.size() > 1) {
      if (static_cast<int64_t>(depths.size()) < header_.samples) {
        return corrupt(str_cat("bits of ", depths.size(), " samples, expected ", header_.samples));
      }
      depths.resize(static_cast<size_t>(header_.samples));
    }
    if (std::count(depths.begin(), depths.end(), depths.front()) !=
            static_cast<int64_t>(depths.size()) ||
        depths.front() < 1 || depths.front() > 64) {
      return unsupported(str_cat("bits per sample ", list_text<uint32_t>(depths), " are not read"));
    }
    header_.bits = depths.front();
    return std::nullopt;
  }

  std::optional<Refusal> read_blocks() {
    const bool has_tiles = tags_.has(TiffTag::tile_offsets);
    if (has_tiles == tags_.has(TiffTag::strip_offsets) ||
        has_tiles != tags_.has(TiffTag::tile_width)) {
      return corrupt("the directory has neither strips nor tiles, or both");
    }
    header_.is_tiled = has_tiles;
    if (has_tiles) {
      header_.block_width = tags_.value(TiffTag::tile_width).value_or(0);
      header_.block_height = tags_.value(TiffTag::tile_length).value_or(0);
    } else {
      header_.block_width = header_.width;
      header_.block_height = std::min<int64_t>(
          tags_.value(TiffTag::rows_per_strip).value_or(UINT32_MAX), header_.height);
    }
    if (header_.block_width < 1 || header_.block_height < 1) {
      return corrupt(
          str_cat("blocks of ", header_.block_width, " x ", header_.block_height, " pixels"));
    }
    return std::nullopt;
  }

  std::optional<Refusal> check_tiles() {
    if (!header_.is_tiled) {
      return std::nullopt;
    }
    const auto most = [](int64_t side) { return std::max(kFreeTileSide, (side + 15) / 16 * 16); };
    const int64_t width = header_.blocks_across() * header_.block_width;
    const int64_t height = header_.blocks_down() * header_.block_height;
    if (header_.block_width > most(header_.width) || header_.block_height > most(header_.height) ||
        width * height > 2 * limits_.max_pixels) {
      return too_large(str_cat("tiles of ", header_.block_width, " x ", header_.block_height,
                               " pixels for a picture of ", header_.width, " x ", header_.height));
    }
    return std::nullopt;
  }

  // What is held at once: a row, or the planes of a block; of JPEG at worst all coefficients too.
  std::optional<Refusal> check_memory() {
    constexpr int64_t kCoefficientBytes = 2;
    int64_t need =
        header_.reads_rows() ? header_.block_row_bytes() : header_.block_bytes() * header_.planes();
    if (header_.compression == TiffCompression::jpeg) {
      need += header_.block_bytes() * kCoefficientBytes;
    }
    if (need > limits_.max_decoder_bytes) {
      return too_large(str_cat("decoding takes ", need, " bytes of memory, at most ",
                               limits_.max_decoder_bytes, " are taken"));
    }
    return std::nullopt;
  }

  // Without compression. The last strip ends with the picture, the last tiles are whole.
  int64_t raw_block_bytes(int64_t index) const {
    const int64_t y = index / header_.blocks_across() % header_.blocks_down();
    const int64_t rows = header_.is_tiled ? header_.block_height
                                          : std::min(header_.block_height,
                                                     header_.height - y * header_.block_height);
    return rows * header_.block_row_bytes();
  }
  int64_t raw_bytes() const {
    const int64_t rows =
        header_.is_tiled ? header_.blocks_across() * header_.blocks_down() * header_.block_height
                         : header_.height;
    return rows * header_.block_row_bytes() * header_.planes();
  }

  // Every strip or tile that is read must be within the file. Their byte counts matter only with
  // compression: without them libtiff would take all that follows in the file.
  std::optional<Refusal> check_data() {
    const TiffTag offsets = header_.is_tiled ? TiffTag::tile_offsets : TiffTag::strip_offsets;
    const TiffTag counts =
        header_.is_tiled ? TiffTag::tile_byte_counts : TiffTag::strip_byte_counts;
    const int64_t per_plane = header_.blocks_across() * header_.blocks_down();
    const int64_t blocks = per_plane * header_.planes();
    const int64_t read_blocks = per_plane * (header_.planes() - header_.ignored_planes());
    const bool is_raw = header_.compression == TiffCompression::none;
    // Pillow takes other blocks than libtiff where an uncompressed picture has too many.
    if (tags_.count(offsets) < blocks || (is_raw && tags_.count(offsets) > blocks) ||
        (!is_raw && tags_.count(counts) < read_blocks)) {
      return corrupt(str_cat(tags_.count(offsets), " places and ", tags_.count(counts),
                             " byte counts of strips or tiles, expected ", blocks));
    }
    int64_t end = is_raw ? raw_bytes() : 0;
    for (int64_t i = 0; i < read_blocks; ++i) {
      const int64_t bytes = is_raw ? raw_block_bytes(i) : tags_.number(counts, i).value_or(0);
      end = std::max(end, tags_.number(offsets, i).value_or(0) + bytes);
      if (bytes * most_expansion(header_.compression) < raw_block_bytes(i)) {
        return Refusal{Fault::truncated,
                       str_cat("TIFF: ", bytes, " bytes of compressed data for ",
                               raw_block_bytes(i), " bytes of pixels; send the whole file")};
      }
    }
    return check_end(end);
  }

  std::optional<Refusal> check_end(int64_t end) const {
    if (end > limits_.max_bytes) {
      return corrupt(
          str_cat("pixels up to byte ", end, ", files have at most ", limits_.max_bytes));
    }
    if (end > tags_.file_bytes()) {
      return Refusal{Fault::truncated, str_cat("TIFF: the file ends after ", tags_.file_bytes(),
                                               " bytes, expected ", end, "; send the whole file")};
    }
    return std::nullopt;
  }

  const TiffTags& tags_;
  const DecodeLimits& limits_;
  TiffHeader header_;
};

}  // namespace

int64_t TiffHeader::ignored_planes() const {
  const bool is_unspecified =
      std::all_of(extra.begin(), extra.end(), [](uint32_t kind) { return kind == 0; });
  return is_planar && is_unspecified ? static_cast<int64_t>(extra.size()) : 0;
}

std::variant<TiffHeader, Refusal> read_tiff_header(std::span<const std::byte> bytes,
                                                   const DecodeLimits& limits) {
  std::variant<TiffTags, Refusal> tags = TiffTags::read(bytes, limits);
  if (Refusal* refusal = std::get_if<Refusal>(&tags)) {
    return std::move(*refusal);
  }
  return Parser(std::get<TiffTags>(tags), limits).run();
}

}  // namespace tessera::intake
