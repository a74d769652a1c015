// Members of a JSON object from a client. A member that is null counts as absent. Every failure is
// an ApiError{invalid_request} of one line, "FIELD: found X, expected Y", that has the field as its
// param.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"

namespace tessera::server {

// The JSON of a body. Throws ApiError{invalid_request} for what is no JSON object: also for text
// that is no UTF-8, a key that appears twice, a lone surrogate, more than 128 levels.
io::Json parse_body(std::string_view body);

// The value in few characters, quoted; lists and objects are named, not dumped.
std::string shown(const io::Json& value);

// A field that cannot be honoured, and the values that ask for nothing.
struct RefusedField {
  std::string_view name;
  std::string_view advice;                              // "send tools"; may be empty
  std::array<std::string_view, 2> harmless = {"", ""};  // compact JSON; unused ones are empty
};

class Fields {
 public:
  // `object` outlives the fields. `prefix`: "stream_options." for the members of a member.
  explicit Fields(const io::Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // The value; nullptr if it is absent or null.
  const io::Json* find(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<std::string> text(std::string_view name);

  // Fields that others read.
  void know(std::span<const std::string_view> names);
  void refuse_all(std::span<const RefusedField> fields);
  // Members that nobody asked for.
  int64_t unknown() const;

  // The name with the prefix.
  std::string path(std::string_view name) const;

 private:
  const io::Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

// The integer or number that `value` is. `path`: of the field.
int64_t integer_of(const io::Json& value, const std::string& path, int64_t low, int64_t high);
double number_of(const io::Json& value, const std::string& path, double low, double high);

// Throws "PATH: found VALUE, expected EXPECTED".
[[noreturn]] void refuse_value(const std::string& path, const io::Json& value,
                               std::string_view expected);

}  // namespace tessera::server
