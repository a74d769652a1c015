#include "io/json.h"

#include <cmath>
#include <limits>

#include "base/str_cat.h"

namespace tessera::io {
namespace {

// Power of ten of the first digit that is not 0 in a JSON number; 0 for zero. Saturates.
int64_t decimal_exponent(std::string_view number) {
  constexpr int64_t kLimit = 1'000'000'000;
  int64_t exponent = 0;
  const size_t e = number.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    if (digits.starts_with('+')) {
      digits.remove_prefix(1);
    }
    if (!parse_number(digits, exponent) || exponent > kLimit || exponent < -kLimit) {
      exponent = digits.starts_with('-') ? -kLimit : kLimit;
    }
    number = number.substr(0, e);
  }
  const size_t point = std::min(number.find('.'), number.size());
  const size_t first = number.find_first_of("123456789");
  if (first == std::string_view::npos) {
    return 0;
  }
  const int64_t place = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  return exponent + (place > 0 ? place - 1 : place);
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\f':
        out.append("\\f");
        break;
      case '\b':
        out.append("\\b");
        break;
      default:
        if (byte < 0x20) {
          out.append("\\u00");
          out.push_back(kDigits[byte >> 4]);
          out.push_back(kDigits[byte & 0xfU]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

struct DumpStyle {
  std::string_view between_items;
  std::string_view after_key;
  bool is_python;
};
constexpr DumpStyle kPython = {", ", ": ", true};
constexpr DumpStyle kCompact = {",", ":", false};

void append_number(std::string& out, const Json& number, const DumpStyle& style) {
  const double value = number.as_double().value_or(std::numeric_limits<double>::infinity());
  const bool is_negative = number.text().starts_with('-');
  if (number.is_integer()) {
    // json.loads gives int for -0, and int has no negative zero.
    out.append(style.is_python && number.text() == "-0" ? "0" : number.text());
  } else if (!style.is_python) {
    out.append(std::isfinite(value) ? number.text() : "null");
  } else if (std::isnan(value)) {
    out.append("NaN");
  } else if (std::isinf(value)) {
    out.append(is_negative ? "-Infinity" : "Infinity");
  } else {
    out.append(python_repr(value));
  }
}

// As deep as the value: parsed values have limited depth.
void append_value(std::string& out, const Json& value, const DumpStyle& style) {
  bool is_first = true;
  switch (value.kind()) {
    case Json::Kind::null:
      out.append("null");
      return;
    case Json::Kind::boolean:
      out.append(value.as_boolean().value_or(false) ? "true" : "false");
      return;
    case Json::Kind::number:
      append_number(out, value, style);
      return;
    case Json::Kind::string:
      append_quoted(out, value.text());
      return;
    case Json::Kind::array:
      out.push_back('[');
      for (const Json& item : value.items()) {
        out.append(is_first ? "" : style.between_items);
        append_value(out, item, style);
        is_first = false;
      }
      out.push_back(']');
      return;
    case Json::Kind::object:
      out.push_back('{');
      for (const auto& [key, member] : value.members()) {
        out.append(is_first ? "" : style.between_items);
        append_quoted(out, key);
        out.append(style.after_key);
        append_value(out, member, style);
        is_first = false;
      }
      out.push_back('}');
      return;
  }
}

template <typename T>
std::optional<T> integer_value(const Json& json) {
  T value = 0;
  if (!json.is_integer()) {
    return std::nullopt;
  }
  const std::string_view text = json.text() == "-0" ? "0" : std::string_view(json.text());
  return parse_number(text, value) ? std::optional<T>(value) : std::nullopt;
}

}  // namespace

Json::Json(const Json& other)
    : kind_(other.kind_),
      flag_(other.flag_),
      text_(other.text_),
      children_(other.children_ == nullptr ? nullptr
                                           : std::make_unique<Children>(*other.children_)) {}

Json& Json::operator=(const Json& other) {
  *this = Json(other);
  return *this;
}

Json::Children& Json::children() {
  if (children_ == nullptr) {
    children_ = std::make_unique<Children>();
  }
  return *children_;
}

const std::vector<Json>& Json::items() const {
  static const std::vector<Json> none;
  return children_ == nullptr ? none : children_->items;
}

const std::vector<Json::Member>& Json::members() const {
  static const std::vector<Member> none;
  return children_ == nullptr ? none : children_->members;
}

std::vector<Json>& Json::items() { return children().items; }

std::vector<Json::Member>& Json::members() { return children().members; }

Json Json::boolean(bool value) {
  Json made;
  made.kind_ = Kind::boolean;
  made.flag_ = value;
  return made;
}

Json Json::string(std::string value) {
  Json made;
  made.kind_ = Kind::string;
  made.text_ = std::move(value);
  return made;
}

Json Json::number(int64_t value) { return number_spelled(str_cat(value)); }

Json Json::number(double value) { return number_spelled(python_repr(value)); }

Json Json::number_spelled(std::string text) {
  Json made;
  made.kind_ = Kind::number;
  made.text_ = std::move(text);
  return made;
}

Json Json::array(std::vector<Json> items) {
  Json made;
  made.kind_ = Kind::array;
  made.items() = std::move(items);
  return made;
}

Json Json::object(std::vector<Member> members) {
  Json made;
  made.kind_ = Kind::object;
  made.members() = std::move(members);
  return made;
}

bool Json::is_integer() const {
  return kind_ == Kind::number && text_.find_first_not_of("-0123456789") == std::string::npos;
}

std::optional<bool> Json::as_boolean() const {
  return kind_ == Kind::boolean ? std::optional<bool>(flag_) : std::nullopt;
}

std::optional<int64_t> Json::as_int64() const { return integer_value<int64_t>(*this); }

std::optional<uint64_t> Json::as_uint64() const { return integer_value<uint64_t>(*this); }

std::optional<double> Json::as_double() const {
  double value = 0;
  if (kind_ != Kind::number || text_.empty()) {
    return std::nullopt;
  }
  const char* end = text_.data() + text_.size();
  const std::from_chars_result result = std::from_chars(text_.data(), end, value);
  if (result.ptr != end) {
    return std::nullopt;
  }
  if (result.ec == std::errc::result_out_of_range) {  // leaves `value` alone
    if (decimal_exponent(text_) > 0) {
      return std::nullopt;
    }
    return text_.starts_with('-') ? -0.0 : 0.0;
  }
  return result.ec == std::errc() ? std::optional<double>(value) : std::nullopt;
}

const Json* Json::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.first == key) {
      return &member.second;
    }
  }
  return nullptr;
}

Json& Json::set(std::string key, Json value) {
  for (Member& member : members()) {
    if (member.first == key) {
      member.second = std::move(value);
      return member.second;
    }
  }
  return members().emplace_back(std::move(key), std::move(value)).second;
}

std::string dump_python(const Json& value) {
  std::string out;
  append_value(out, value, kPython);
  return out;
}

std::string dump_compact(const Json& value) {
  std::string out;
  append_value(out, value, kCompact);
  return out;
}

// float_repr_style "short": the shortest digits that read back as the same double, in fixed form
// for exponents from -4 to 15.
std::string python_repr(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  char buffer[64];
  const std::to_chars_result made =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<size_t>(made.ptr - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const std::string_view exponent_text = scientific.substr(e + (scientific[e + 1] == '+' ? 2 : 1));
  static_cast<void>(parse_number(exponent_text, exponent));  // to_chars wrote it
  if (exponent < -4 || exponent >= 16) {
    return std::string(
        scientific);  // "1e-05", "1.5e+16": to_chars writes two digits as Python does
  }
  std::string digits;
  for (const char c : scientific.substr(0, e)) {
    if (c >= '0' && c <= '9') {
      digits.push_back(c);
    }
  }
  std::string out = std::signbit(value) ? "-" : "";
  const size_t whole = exponent < 0 ? 0 : static_cast<size_t>(exponent) + 1;
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (digits.size() <= whole) {
    return out + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace tessera::io
