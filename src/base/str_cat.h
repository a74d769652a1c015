// Builds text from strings and numbers without locales: numbers go through std::to_chars.
#pragma once

#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

inline void append_piece(std::string& out, std::string_view piece) { out.append(piece); }
inline void append_piece(std::string& out, const char* piece) { out.append(piece); }
inline void append_piece(std::string& out, char piece) { out.push_back(piece); }
inline void append_piece(std::string& out, bool piece) { out.append(piece ? "true" : "false"); }

template <typename T>
requires(std::integral<T> || std::floating_point<T>) void append_piece(std::string& out, T number) {
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), number);
  out.append(text, result.ptr);
}

// str_cat("layer ", 3, " has ", 2.5) == "layer 3 has 2.5"
template <typename... Pieces>
std::string str_cat(const Pieces&... pieces) {
  std::string out;
  (append_piece(out, pieces), ...);
  return out;
}

// "[2,3]": the form of shapes in messages.
template <typename T>
std::string list_text(std::span<const T> values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) {
      out.push_back(',');
    }
    append_piece(out, values[i]);
  }
  out.push_back(']');
  return out;
}

// The decimal number that is all of `text`, or false. No sign except '-', no blanks, no locale.
template <typename T>
[[nodiscard]] bool parse_number(std::string_view text, T& value) {
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

}  // namespace tessera
