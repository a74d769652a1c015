// Characters of HTTP's fields.
#pragma once

namespace tessera::server {

constexpr bool is_visible_ascii(char c) { return c > ' ' && c < '\x7f'; }

// A control character other than the tab; bytes above ASCII are none.
constexpr bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace tessera::server
