#include "base/text.h"

#include <cstdint>

namespace tessera {
namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0U) == 0x80U; }

// U+0000..U+001F, U+007F..U+009F, and the line and paragraph separators U+2028 and U+2029.
bool breaks_a_line(std::string_view sequence) {
  const uint8_t first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) {
    return first < 0x20 || first == 0x7f;
  }
  if (sequence.size() == 2) {
    return first == 0xc2 && static_cast<uint8_t>(sequence[1]) < 0xa0;
  }
  return sequence == "\xe2\x80\xa8" || sequence == "\xe2\x80\xa9";
}

void append_escaped(std::string& out, std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const uint8_t byte = static_cast<uint8_t>(c);
    out.append("\\x");
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 0xfU]);
  }
}

}  // namespace

size_t utf8_sequence_bytes(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  const uint8_t first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2 || first > 0xf4) {
    return 0;
  }
  const size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < bytes) {
    return 0;
  }
  for (size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[i])) {
      return 0;
    }
  }
  const uint8_t second = static_cast<uint8_t>(text[1]);
  const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_surrogate = first == 0xed && second > 0x9f;
  const bool is_too_large = first == 0xf4 && second > 0x8f;
  return is_overlong || is_surrogate || is_too_large ? 0 : bytes;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = utf8_sequence_bytes(text);
    if (bytes == 0) {
      return false;
    }
    text.remove_prefix(bytes);
  }
  return true;
}

std::string quoted(std::string_view text, size_t limit) {
  std::string out = "'";
  size_t used = 0;
  while (used < text.size()) {
    const size_t sequence = utf8_sequence_bytes(text.substr(used));
    const std::string_view piece = text.substr(used, sequence == 0 ? 1 : sequence);
    if (used + piece.size() > limit) {
      out.append("...");
      break;
    }
    if (sequence == 0 || breaks_a_line(piece)) {
      append_escaped(out, piece);
    } else {
      out.append(piece);
    }
    used += piece.size();
  }
  out.push_back('\'');
  return out;
}

}  // namespace tessera
