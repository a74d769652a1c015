#include "intake/tiff_decode.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "image/orient.h"
#include "intake/limits.h"
#include "intake/tiff_header.h"
#include "intake/tiff_layout.h"
#include "intake/tiff_reader.h"
#include "intake/tiff_rows.h"

namespace tessera::intake {
namespace {

using image::Image;

std::optional<Refusal> read_rows(TiffReader& reader, const TiffHeader& header, TiffRows& rows,
                                 const Deadline& deadline, Image& out) {
  std::vector<uint8_t> row(static_cast<size_t>(header.block_row_bytes()));
  const uint8_t* const planes[] = {row.data()};
  for (int64_t y = 0; y < header.height; ++y) {
    if (deadline.is_over()) {
      return refuse_late("TIFF");
    }
    if (std::optional<Refusal> refusal = reader.read_row(y, row.data())) {
      return refusal;
    }
    rows.write(planes, header.width, out.row(y));
  }
  return std::nullopt;
}

// Strips or tiles, all planes of one before the next.
class Blocks {
 public:
  Blocks(TiffReader& reader, const TiffHeader& header, TiffRows& rows)
      : reader_(reader),
        header_(header),
        rows_(rows),
        data_(static_cast<size_t>(rows.planes()),
              std::vector<uint8_t>(static_cast<size_t>(header.block_bytes()))),
        planes_(data_.size()) {}

  std::optional<Refusal> read(const Deadline& deadline, Image& out) {
    for (int64_t y = 0; y < header_.blocks_down(); ++y) {
      for (int64_t x = 0; x < header_.blocks_across(); ++x) {
        if (deadline.is_over()) {
          return refuse_late("TIFF");
        }
        if (std::optional<Refusal> refusal = read_block(x, y, out)) {
          return refusal;
        }
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Refusal> read_block(int64_t x, int64_t y, Image& out) {
    const int64_t left = x * header_.block_width;
    const int64_t top = y * header_.block_height;
    const int64_t width = std::min(header_.block_width, header_.width - left);
    const int64_t height = std::min(header_.block_height, header_.height - top);
    // The last strip ends with the picture, the last tiles are whole.
    const int64_t bytes =
        header_.block_row_bytes() * (header_.is_tiled ? header_.block_height : height);
    const int64_t per_plane = header_.blocks_across() * header_.blocks_down();
    for (size_t plane = 0; plane < data_.size(); ++plane) {
      const int64_t index =
          static_cast<int64_t>(plane) * per_plane + y * header_.blocks_across() + x;
      if (std::optional<Refusal> refusal = reader_.read_block(index, bytes, data_[plane].data())) {
        return refusal;
      }
    }
    for (int64_t row = 0; row < height; ++row) {
      for (size_t plane = 0; plane < data_.size(); ++plane) {
        planes_[plane] = data_[plane].data() + row * header_.block_row_bytes();
      }
      rows_.write(planes_, width, out.row(top + row) + Image::kChannels * left);
    }
    return std::nullopt;
  }

  TiffReader& reader_;
  const TiffHeader& header_;
  TiffRows& rows_;
  std::vector<std::vector<uint8_t>> data_;  // of each plane of the current block
  std::vector<const uint8_t*> planes_;      // the current row of each
};

}  // namespace

DecodeResult decode_tiff(std::span<const std::byte> bytes, const DecodeOptions& options) {
  std::variant<TiffHeader, Refusal> read = read_tiff_header(bytes, options.limits);
  if (Refusal* refusal = std::get_if<Refusal>(&read)) {
    return std::move(*refusal);
  }
  const TiffHeader& header = std::get<TiffHeader>(read);
  std::variant<TiffLayout, Refusal> chosen = choose_tiff_layout(header);
  if (Refusal* refusal = std::get_if<Refusal>(&chosen)) {
    return std::move(*refusal);
  }
  const TiffLayout& layout = std::get<TiffLayout>(chosen);
  TiffReader reader(bytes, header);
  std::optional<Refusal> refusal = reader.open(options.limits);
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  Image rgb({header.width, header.height});
  TiffRows rows(header, layout, options.policy, header.block_width);
  refusal = header.reads_rows() ? read_rows(reader, header, rows, options.deadline, rgb)
                                : Blocks(reader, header, rows).read(options.deadline, rgb);
  if (refusal.has_value()) {
    return *std::move(refusal);
  }
  return DecodedImage{.rgb = image::orient(std::move(rgb), header.orientation),
                      .format = "TIFF",
                      .mode = layout.pillow_mode,
                      .has_transparency = rows.has_transparency(),
                      .has_sixteen_bits = header.bits == 12 || header.bits == 16};
}

}  // namespace tessera::intake
