#include "text_columns.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/str_cat.h"

namespace tessera {

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double scaled = static_cast<double>(bytes);
  for (; unit + 1 < std::size(kUnits) && scaled >= 1024; ++unit) {
    scaled /= 1024;
  }
  return str_cat(unit == 0 ? str_cat(bytes) : decimal_text(scaled, 2), " ", kUnits[unit]);
}

std::string decimal_text(double value, int decimals) {
  char text[64];
  const std::to_chars_result end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, decimals);
  return end.ec == std::errc() ? std::string(text, end.ptr) : str_cat(value);
}

std::string left(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, text.size()), ' ');
}

std::string right(std::string_view text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + std::string(text);
}

}  // namespace tessera
