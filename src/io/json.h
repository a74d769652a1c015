// JSON values that keep what JSON text says: key order, duplicate detection and the spelling of
// numbers. Parsed by SAX (nlohmann::json) with limits on depth and size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::io {

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;  // null
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  static Json boolean(bool value);
  static Json string(std::string value);
  static Json number(int64_t value);
  static Json number(double value);              // Python's repr spelling
  static Json number_spelled(std::string text);  // exactly this spelling
  static Json array(std::vector<Json> items = {});
  static Json object(std::vector<Member> members = {});

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_number() const { return kind_ == Kind::number; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_integer() const;  // a number spelled without '.', 'e' or 'E'

  // The value, or nothing when the kind differs (or an integer does not fit).
  std::optional<bool> as_boolean() const;
  std::optional<int64_t> as_int64() const;
  std::optional<uint64_t> as_uint64() const;
  std::optional<double> as_double() const;
  // The text of a string, the spelling of a number; empty otherwise.
  const std::string& text() const { return text_; }

  // Empty for other kinds. Members are in input order.
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;
  std::vector<Json>& items();
  std::vector<Member>& members();
  // Value of a key of an object, or nullptr.
  const Json* find(std::string_view key) const;
  Json& set(std::string key, Json value);  // appends or replaces; returns the stored value

 private:
  // Apart, so that the many values without children are small.
  struct Children;

  Children& children();

  Kind kind_ = Kind::null;
  bool flag_ = false;
  std::string text_;
  std::unique_ptr<Children> children_;  // made when first needed
};

struct Json::Children {
  std::vector<Json> items;
  std::vector<Member> members;
};

inline Json::~Json() = default;
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(Json&& other) noexcept = default;

struct JsonLimits {
  int max_depth = 128;  // counts no higher than 1000
  int64_t max_bytes = int64_t{256} << 20;
  bool allow_duplicate_keys = false;  // true: the last one wins, as in Python
};

// `name` stands at the start of every message: "config.json: line 3: ...". Throws Error{bad_file}
// for text that is not exactly one JSON value (RFC 8259, valid UTF-8, a byte order mark is
// skipped), has a number beyond double, or goes beyond the limits.
Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});
Json read_json_file(const std::string& path, const JsonLimits& limits = {});

// Python's json.dumps(value, ensure_ascii=False): ", " and ": ", keys in order, integers as
// written, floats by Python's repr rule, control characters escaped, non-ASCII raw.
std::string dump_python(const Json& value);
// Shortest form: no blanks, numbers as written, null for numbers that JSON lacks (nan, inf). For
// our own output.
std::string dump_compact(const Json& value);

// Python's repr of a float ("1e-05", "1e+16", "0.0001", "-0.0", "1.0", "inf", "nan").
std::string python_repr(double value);

}  // namespace tessera::io
