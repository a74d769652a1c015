#include "intake/pnm_decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "intake/limits.h"
#include "intake/pixel_rows.h"
#include "intake/pnm_scan.h"

namespace tessera::intake {
namespace {

using image::Image;

// 16-bit grey keeps its bits for the policy. 16-bit colour is rounded to 8 bits by Pillow's PNM
// reader itself, where its PNG and TIFF readers keep the high byte; policies do not differ here.
RowFormat row_format(const PnmHeader& header) {
  if (header.channels == 3) {
    return RowFormat::rgb8;
  }
  return header.is_wide() ? RowFormat::grey16 : RowFormat::grey8;
}

int64_t top_value(const PnmHeader& header) {
  return row_format(header) == RowFormat::grey16 ? 65535 : 255;
}

// What stored values become: min(top, round(value / max_value * top)), halves to even, in doubles
// as in Pillow. Bitmaps: 1 is black.
class Levels {
 public:
  explicit Levels(const PnmHeader& header) : header_(header) {
    constexpr int64_t kSmall = 4096;  // samples that do not pay for a table of 65536
    if (!header.is_wide() || header.width * header.height * header.channels > kSmall) {
      table_.resize(header.is_wide() ? 65536 : 256);
      for (size_t value = 0; value < table_.size(); ++value) {
        table_[value] = level(static_cast<uint16_t>(value));
      }
    }
  }

  uint16_t operator[](uint16_t value) const {
    return table_.empty() ? level(value) : table_[value];
  }

 private:
  uint16_t level(uint16_t value) const {
    if (header_.is_bitmap) {
      return value == 0 ? 255 : 0;
    }
    const auto top = static_cast<double>(top_value(header_));
    const double share = static_cast<double>(value) / static_cast<double>(header_.max_value);
    return static_cast<uint16_t>(std::min(top, std::nearbyint(share * top)));
  }

  const PnmHeader& header_;
  std::vector<uint16_t> table_;
};

// Rows of stored values, from text or bytes.
class Source {
 public:
  Source(PnmScanner scanner, const PnmHeader& header)
      : scanner_(scanner), header_(header), samples_(header.width * header.channels) {}

  // One row of values up to 65535. Nothing on success.
  std::optional<Refusal> read(uint16_t* row) {
    return header_.is_plain ? read_text(row) : read_bytes(row);
  }

 private:
  std::optional<Refusal> read_text(uint16_t* row) {
    for (int64_t i = 0; i < samples_; ++i) {
      std::variant<int64_t, Refusal> read = header_.is_bitmap ? scanner_.bit() : scanner_.number();
      if (Refusal* refusal = std::get_if<Refusal>(&read)) {
        return std::move(*refusal);
      }
      const int64_t value = std::get<int64_t>(read);
      if (value > header_.max_value) {
        return Refusal{Fault::corrupt, str_cat("PNM: value ", value, ", expected at most ",
                                               header_.max_value, "; re-encode the picture")};
      }
      row[i] = static_cast<uint16_t>(value);
    }
    return std::nullopt;
  }

  // The header's reader has checked that all bytes are there.
  std::optional<Refusal> read_bytes(uint16_t* row) {
    const auto* from = reinterpret_cast<const uint8_t*>(scanner_.rest().data()) + used_;
    for (int64_t i = 0; i < samples_; ++i) {
      if (header_.is_bitmap) {
        row[i] = from[i / 8] >> (7 - i % 8) & 1;
      } else if (header_.is_wide()) {
        row[i] = static_cast<uint16_t>(from[2 * i] << 8 | from[2 * i + 1]);
      } else {
        row[i] = from[i];
      }
    }
    used_ += header_.is_bitmap ? (samples_ + 7) / 8 : header_.is_wide() ? 2 * samples_ : samples_;
    return std::nullopt;
  }

  PnmScanner scanner_;
  const PnmHeader& header_;
  int64_t samples_;  // per row
  int64_t used_ = 0;
};

std::optional<Refusal> read_rows(Source source, const PnmHeader& header, const Deadline& deadline,
                                 RowWriter& writer, Image& out) {
  const Levels levels(header);
  std::vector<uint16_t> values(static_cast<size_t>(header.width * header.channels));
  std::vector<uint8_t> row(2 * values.size());
  for (int64_t y = 0; y < header.height; ++y) {
    if (deadline.is_over()) {
      return refuse_late("PNM");
    }
    if (std::optional<Refusal> refusal = source.read(values.data())) {
      return refusal;
    }
    for (uint16_t& value : values) {
      value = levels[value];
    }
    if (row_format(header) == RowFormat::grey16) {
      std::memcpy(row.data(), values.data(), row.size());
    } else {
      std::transform(values.begin(), values.end(), row.begin(),
                     [](uint16_t value) { return static_cast<uint8_t>(value); });
    }
    writer.write(row.data(), header.width, out.row(y));
  }
  return std::nullopt;
}

}  // namespace

DecodeResult decode_pnm(std::span<const std::byte> bytes, const DecodeOptions& options) {
  PnmScanner scanner(bytes);
  std::variant<PnmHeader, Refusal> read = read_pnm_header(scanner, options.limits);
  if (Refusal* refusal = std::get_if<Refusal>(&read)) {
    return std::move(*refusal);
  }
  const PnmHeader& header = std::get<PnmHeader>(read);
  RowWriter writer(row_format(header), options.policy);
  Image rgb({header.width, header.height});
  if (std::optional<Refusal> refusal =
          read_rows(Source(scanner, header), header, options.deadline, writer, rgb)) {
    return *std::move(refusal);
  }
  return DecodedImage{.rgb = std::move(rgb),
                      .format = "PPM",
                      .mode = header.is_bitmap       ? "1"
                              : header.channels == 3 ? "RGB"
                              : header.is_wide()     ? "I"
                                                     : "L",
                      .has_sixteen_bits = header.is_wide()};
}

}  // namespace tessera::intake
