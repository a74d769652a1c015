// Numbers and columns of tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// "475.24 GiB": the largest unit that leaves at least 1, two decimals; "17 B".
std::string size_text(int64_t bytes);
// "12.3": so many decimals, rounded.
std::string decimal_text(double value, int decimals);
// Filled with blanks up to a width; longer text stays whole.
std::string left(std::string_view text, size_t width);
std::string right(std::string_view text, size_t width);

}  // namespace tessera
