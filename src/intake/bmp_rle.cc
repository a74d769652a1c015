#include "intake/bmp_rle.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

// What a run of no pixels says; larger values are counts of literals.
constexpr uint8_t kEndOfRow = 0;
constexpr uint8_t kEndOfBitmap = 1;
constexpr uint8_t kDelta = 2;

using OnRow = std::function<bool(int64_t, const uint8_t*)>;

// Pixels in the order of the file; full rows are handed on.
class Rows {
 public:
  Rows(const BmpHeader& header, const OnRow& on_row)
      : row_(static_cast<size_t>(header.width)), on_row_(on_row), height_(header.height) {}

  // False when the picture is full or on_row stopped.
  bool is_open() const { return is_open_; }
  int64_t x() const { return x_; }
  int64_t left() const { return (height_ - y_) * width() - x_; }  // pixels

  // `first` and `second` in turn.
  void add(int64_t count, uint8_t first, uint8_t second) {
    for (int64_t i = 0; i < count && is_open_; ++i) {
      row_[static_cast<size_t>(x_)] = i % 2 == 0 ? first : second;
      step(1);
    }
  }

  void skip(int64_t count) {
    while (count > 0 && is_open_) {
      const int64_t here = std::min(count, width() - x_);
      std::memset(row_.data() + x_, 0, static_cast<size_t>(here));
      count -= here;
      step(here);
    }
  }

 private:
  int64_t width() const { return static_cast<int64_t>(row_.size()); }

  void step(int64_t pixels) {
    x_ += pixels;
    if (x_ == width()) {
      is_open_ = on_row_(y_, row_.data()) && y_ + 1 < height_;
      x_ = 0;
      ++y_;
    }
  }

  std::vector<uint8_t> row_;
  const OnRow& on_row_;
  int64_t height_;
  int64_t x_ = 0;
  int64_t y_ = 0;
  bool is_open_ = true;
};

class Expander {
 public:
  Expander(std::span<const std::byte> bytes, const BmpHeader& header, const OnRow& on_row)
      : bytes_(bytes),
        at_(static_cast<size_t>(header.data_offset)),
        header_(header),
        rows_(header, on_row) {}

  std::optional<Refusal> run() {
    while (rows_.is_open()) {
      if (!has(2)) {
        return Refusal{Fault::truncated,
                       str_cat("BMP: the runs end ", rows_.left(),
                               " pixels before the picture; send the whole file")};
      }
      const int64_t count = next();
      const uint8_t value = next();
      if (count > 0) {
        run_of(count, value);
      } else if (value == kEndOfBitmap) {
        return Refusal{Fault::corrupt,
                       str_cat("BMP: the runs stop ", rows_.left(),
                               " pixels before the picture; re-encode the picture")};
      } else if (!escape(value)) {
        return Refusal{Fault::truncated, "BMP: the file ends inside a run; send the whole file"};
      }
    }
    return std::nullopt;
  }

 private:
  bool has(size_t count) const { return count <= bytes_.size() - at_; }
  uint8_t next() { return std::to_integer<uint8_t>(bytes_[at_++]); }

  // Runs are cut at the end of the row; the next one begins behind an escape.
  void run_of(int64_t count, uint8_t value) {
    count = std::min(count, std::max<int64_t>(0, header_.width - column_));
    column_ += count;
    if (header_.is_rle4) {
      rows_.add(count, value >> 4, value & 15U);
    } else {
      rows_.add(count, value, value);
    }
  }

  // False when the file ends.
  bool escape(uint8_t value) {
    if (value == kEndOfRow) {
      rows_.skip(rows_.x() == 0 ? 0 : header_.width - rows_.x());
      column_ = 0;
      return true;
    }
    if (value != kDelta) {
      return literal(value);
    }
    if (!has(2)) {
      return false;
    }
    const int64_t right = next();
    const int64_t rows = next();
    rows_.skip(right + rows * header_.width);
    column_ = rows_.x();
    return true;
  }

  // Entries as they are; unlike runs they go on in the next row.
  bool literal(int64_t count) {
    const int64_t wanted = std::min(count, rows_.left());
    const int64_t stored_bytes = header_.is_rle4 ? (wanted + 1) / 2 : wanted;
    if (!has(static_cast<size_t>(stored_bytes))) {
      return false;
    }
    for (int64_t i = 0; i < wanted; i += header_.is_rle4 ? 2 : 1) {
      const uint8_t value = next();
      if (header_.is_rle4) {
        rows_.add(std::min<int64_t>(2, wanted - i), value >> 4, value & 15U);
      } else {
        rows_.add(1, value, value);
      }
    }
    column_ += count;
    // Literals are padded to two bytes. Pillow counts from the start of the file, not of the runs.
    if (at_ % 2 != 0 && has(1)) {
      ++at_;
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  size_t at_;
  const BmpHeader& header_;
  Rows rows_;
  int64_t column_ = 0;  // as Pillow counts it: literals that pass the end of a row do not wrap it
};

}  // namespace

std::optional<Refusal> expand_bmp_rle(std::span<const std::byte> bytes, const BmpHeader& header,
                                      const OnRow& on_row) {
  return Expander(bytes, header, on_row).run();
}

}  // namespace tessera::intake
