#include "base/base64.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace tessera {

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? std::to_integer<uint32_t>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      out.push_back(i > count ? '=' : kAlphabet[group >> (18 - 6 * i) & 0x3fU]);
    }
  }
  return out;
}

}  // namespace tessera
