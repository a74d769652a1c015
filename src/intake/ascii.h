// Letters and blanks of protocols, whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tessera::intake {

constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = ascii_lower(c);
  }
  return out;
}

inline bool is_equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

constexpr std::string_view kAsciiBlanks = " \t\n\f\r";

inline std::string_view trim_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kAsciiBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kAsciiBlanks) + 1);
}

}  // namespace tessera::intake
