// UTF-8: repair and decoding in pieces (base/text.h validates). Ill-formed bytes become U+FFFD, one
// for each maximal subpart of an ill-formed sequence (Unicode 16, section 3.9; the same as Python's
// decode("utf-8", "replace")).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD

// `bytes` with ill-formed sequences replaced.
std::string replace_invalid_utf8(std::string_view bytes);

// Code points of valid UTF-8.
int64_t count_code_points(std::string_view text);

void append_utf8(std::string& out, uint32_t code_point);

// Length in bytes of the sequence that a lead byte of valid UTF-8 opens.
inline int utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

// The code point at `at`, which moves behind it. `text` is valid UTF-8.
inline uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(at);
  const size_t start = at;
  at += static_cast<size_t>(utf8_length(static_cast<unsigned char>(lead)));
  switch (at - start) {
    case 1:
      return lead;
    case 2:
      return (lead & 0x1fU) << 6 | (byte(start + 1) & 0x3fU);
    case 3:
      return (lead & 0xfU) << 12 | (byte(start + 1) & 0x3fU) << 6 | (byte(start + 2) & 0x3fU);
    default:
      return (lead & 7U) << 18 | (byte(start + 1) & 0x3fU) << 12 | (byte(start + 2) & 0x3fU) << 6 |
             (byte(start + 3) & 0x3fU);
  }
}

// Decodes bytes that arrive in pieces cut anywhere. Holds back at most 3 bytes: a sequence that is
// unfinished and valid so far.
class Utf8Decoder {
 public:
  // Appends to `out` everything that is complete.
  void push(std::string_view bytes, std::string& out);
  // End of the stream: held-back bytes become U+FFFD. The decoder is then as new.
  void flush(std::string& out);

 private:
  void start(unsigned char lead, std::string& out);

  unsigned char pending_[4] = {};
  int count_ = 0;   // bytes in pending_
  int needed_ = 0;  // length of the sequence that pending_ opens
  // Values that the next byte may have.
  unsigned char lowest_ = 0;
  unsigned char highest_ = 0;
};

}  // namespace tessera
