// Members of JSON objects from outside. Every failure is an Error{bad_request} of one line that
// begins with the place (`where` and the key) and says what was expected and what was found.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/json.h"

namespace tessera::deepseek_v41 {

// Throws Error{bad_request} "WHERE: WHAT".
[[noreturn]] void fail(std::string_view where, std::string_view what);

// "a string", "null", "an object", ...
std::string_view kind_name(const io::Json& value);
// The value in few characters, quoted.
std::string shown_json(const io::Json& value);

// The value of a key; nullptr if it is absent or null.
const io::Json* find_value(const io::Json& object, std::string_view key);
// The string under a key.
const std::string& require_text(const io::Json& object, std::string_view key,
                                std::string_view where);
// The same; "" if it is absent or null.
std::string optional_text(const io::Json& object, std::string_view key, std::string_view where);
// True or false under a key; false if it is absent or null.
bool read_flag(const io::Json& object, std::string_view key, std::string_view where);

[[noreturn]] void fail_unknown(std::string_view where, std::string_view what,
                               std::string_view found, std::string_view expected);

// The value that `name` stands for in a table.
template <typename T, size_t Count>
T read_name(std::string_view name, const std::array<std::pair<std::string_view, T>, Count>& known,
            std::string_view what, std::string_view where) {
  std::string expected;
  for (const auto& [text, value] : known) {
    if (name == text) {
      return value;
    }
    expected.append(expected.empty() ? "" : ", ").append(text);
  }
  fail_unknown(where, what, name, expected);
}

}  // namespace tessera::deepseek_v41
