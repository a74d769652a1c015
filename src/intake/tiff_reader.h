// libtiff over bytes in memory: opened, compared with the header that was checked, and read row by
// row or block by block. Nothing global is touched: messages go to the reader's own handlers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "intake/decode.h"
#include "intake/tiff_header.h"

struct tiff;  // libtiff's TIFF

namespace tessera::intake {

class TiffReader {
 public:
  // `bytes` and `header` must outlive the reader.
  TiffReader(std::span<const std::byte> bytes, const TiffHeader& header);
  ~TiffReader();
  TiffReader(const TiffReader&) = delete;
  TiffReader& operator=(const TiffReader&) = delete;

  // Refuses what libtiff does not open (corrupt) or reads otherwise than the header (corrupt).
  std::optional<Refusal> open(const DecodeLimits& limits);

  // Row `y` where header.reads_rows(): header.block_row_bytes() bytes.
  std::optional<Refusal> read_row(int64_t y, uint8_t* to);

  // A strip or tile of a plane, `index` from 0 in the order of the file: `bytes` bytes.
  std::optional<Refusal> read_block(int64_t index, int64_t bytes, uint8_t* to);

 private:
  struct Callbacks;

  void set_decoder_options();
  bool agrees() const;
  bool fails(bool is_read);
  Refusal refusal() const;

  std::span<const std::byte> bytes_;
  const TiffHeader& header_;
  uint64_t at_ = 0;                  // libtiff's place in the file
  std::array<char, 200> message_{};  // the first one that means broken pixels
  struct tiff* tiff_ = nullptr;
};

}  // namespace tessera::intake
