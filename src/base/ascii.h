// Letters and blanks of protocols, whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tessera {

constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string ascii_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return ascii_lower(c); });
  return out;
}

inline bool is_equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

inline bool begins_in_any_case(std::string_view text, std::string_view start) {
  return is_equal_in_any_case(text.substr(0, start.size()), start);
}

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

constexpr bool is_ascii_alphanumeric(char c) {
  return is_ascii_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}

constexpr std::string_view kHttpBlanks = " \t";
constexpr std::string_view kAsciiBlanks = " \t\n\f\r";  // of URLs

// Without the characters of `blanks` at both ends.
inline std::string_view trim(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

}  // namespace tessera
