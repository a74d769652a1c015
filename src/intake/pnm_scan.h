// Text of a PNM file: the header of every kind and the samples of the plain ones. Source: the
// netpbm manual pages pbm(5), pgm(5) and ppm(5); the rest as Pillow 13 does (PpmImagePlugin.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "intake/decode.h"

namespace tessera::intake {

// Numbers and digits with whitespace and comments (from '#' to the end of the line) between them.
// A comment is taken out as a whole, so that "12#\n3" is 123, as in Pillow.
class PnmScanner {
 public:
  explicit PnmScanner(std::span<const std::byte> text) : text_(text) {}

  // The next number, and the one whitespace behind it is skipped. Refuses the end of the file
  // (truncated) and anything but up to ten digits (corrupt).
  std::variant<int64_t, Refusal> number();

  // The next '0' or '1', which nothing need separate.
  std::variant<int64_t, Refusal> bit();

  std::span<const std::byte> rest() const { return text_.subspan(at_); }

 private:
  std::optional<char> next();  // outside of comments; nothing at the end

  std::span<const std::byte> text_;
  size_t at_ = 0;
};

struct PnmHeader {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 1;  // 1 or 3
  bool is_bitmap = false;
  bool is_plain = false;
  int64_t max_value = 1;  // 1 to 65535

  bool is_wide() const { return max_value > 255; }
  // The fewest bytes of all pixels: exact unless plain.
  int64_t data_bytes() const;
};

// The scanner stands at the pixels afterwards. Refuses sizes beyond the limits (too_large), PAM
// (unsupported), a file that is too short for its pixels (truncated) and anything else that is
// no header (corrupt). `scanner` is at the start of a file that begins with 'P' and a digit.
std::variant<PnmHeader, Refusal> read_pnm_header(PnmScanner& scanner, const DecodeLimits& limits);

}  // namespace tessera::intake
