// The strings of pixels that a GIF's LZW codes stand for (GIF89a, appendix F). giflib reads the
// codes, but its own decoder draws something for codes that were never defined.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::intake {

class GifStrings {
 public:
  explicit GifStrings(int code_bits) : clear_(1 << code_bits) { reset(); }

  int clear_code() const { return clear_; }
  void reset() {
    next_ = clear_ + 2;  // after the clear and the end code
    previous_ = kNone;
  }

  // Empty for a code that is not defined. Valid until the next call. `code`: 0 to 4095, neither
  // the clear nor the end code.
  std::span<const uint8_t> expand(int code) {
    const bool is_new = code == next_ && previous_ != kNone;  // the string defined just now
    if (code >= next_ && !is_new) {
      return {};
    }
    size_t at = string_.size() - (is_new ? 1 : 0);
    int from = is_new ? previous_ : code;
    while (from >= clear_) {
      const auto entry = static_cast<size_t>(from);
      string_[--at] = last_[entry];
      from = prefix_[entry];
    }
    const auto first = static_cast<uint8_t>(from);
    string_[--at] = first;
    if (is_new) {
      string_.back() = first;
    }
    if (previous_ != kNone && next_ < kCodes) {
      prefix_[static_cast<size_t>(next_)] = static_cast<uint16_t>(previous_);
      last_[static_cast<size_t>(next_)] = first;
      ++next_;
    }
    previous_ = code;
    return std::span(string_).subspan(at);
  }

 private:
  static constexpr int kCodes = 4096;  // of at most 12 bits
  static constexpr int kNone = -1;

  int clear_;
  int next_ = 0;  // the code of the next string; kCodes: the table is full
  int previous_ = kNone;
  std::array<uint16_t, kCodes> prefix_;  // code of the string without its last pixel
  std::array<uint8_t, kCodes> last_;
  std::array<uint8_t, kCodes> string_;  // the latest, at the end
};

}  // namespace tessera::intake
