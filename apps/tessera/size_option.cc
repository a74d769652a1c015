#include "size_option.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr double kTooLarge = 0x1p63;

// What one of the unit is; 0 for no unit of ours.
double unit_of(std::string_view text) {
  if (text.empty() || text == "B") {
    return 1;
  }
  const std::string_view rest = text.substr(1);
  const bool is_decimal = rest == "B";
  if (!is_decimal && !rest.empty() && rest != "iB") {
    return 0;
  }
  double unit = 1;
  for (const char letter : {'K', 'M', 'G', 'T'}) {
    unit *= is_decimal ? 1000 : 1024;
    if (text.front() == letter) {
      return unit;
    }
  }
  return 0;
}

template <typename Value>
void add(CLI::App& command, const std::string& name, Value& value, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&value, name](const std::string& text) { value = parse_size(name, text); }, help)
      ->type_name("SIZE");
}

}  // namespace

int64_t parse_size(const std::string& name, const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const size_t unit_at = std::min(text.find_first_not_of(' ', digits), text.size());
  const double unit = unit_of(std::string_view(text).substr(unit_at));
  double number = 0;
  if (unit == 0 || !parse_number(std::string_view(text).substr(0, digits), number)) {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", tessera::quoted(text),
                        ": expected a number of bytes, such as 64G, 1.5TB or 1000000"));
  }
  if (!(number * unit < kTooLarge)) {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", tessera::quoted(text), ": expected less than 8388608T"));
  }
  return static_cast<int64_t>(number * unit);
}

void add_size_option(CLI::App& command, const std::string& name, int64_t& value,
                     const std::string& help) {
  add(command, name, value, help);
}

void add_size_option(CLI::App& command, const std::string& name, std::optional<int64_t>& value,
                     const std::string& help) {
  add(command, name, value, help);
}

}  // namespace tessera
