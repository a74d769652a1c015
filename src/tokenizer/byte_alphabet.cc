#include "tokenizer/byte_alphabet.h"

#include "tokenizer/utf8.h"

namespace tessera {
namespace {

constexpr uint32_t kAlphabetEnd = 256 + 68;

std::array<uint16_t, 256> make_alphabet() {
  std::array<uint16_t, 256> result{};
  uint16_t next = 256;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    result[byte] = is_printable ? byte : next++;
  }
  return result;
}

std::array<int16_t, kAlphabetEnd> make_inverse() {
  std::array<int16_t, kAlphabetEnd> result;
  result.fill(-1);
  for (size_t byte = 0; byte < 256; ++byte) {
    result[byte_alphabet()[byte]] = static_cast<int16_t>(byte);
  }
  return result;
}

}  // namespace

const std::array<uint16_t, 256>& byte_alphabet() {
  static const std::array<uint16_t, 256> alphabet = make_alphabet();
  return alphabet;
}

bool append_bytes_of_alphabet(std::string_view text, std::string& bytes) {
  static const std::array<int16_t, kAlphabetEnd> inverse = make_inverse();
  const size_t before = bytes.size();
  size_t at = 0;
  while (at < text.size()) {
    const uint32_t code_point = next_code_point(text, at);
    if (code_point >= kAlphabetEnd || inverse[code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes.push_back(static_cast<char>(inverse[code_point]));
  }
  return true;
}

}  // namespace tessera
