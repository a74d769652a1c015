#include "models/deepseek_v41/json_fields.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::deepseek_v41 {

using io::Json;

void fail(std::string_view where, std::string_view what) {
  throw Error(ErrorCode::bad_request, str_cat(where, ": ", what));
}

void fail_unknown(std::string_view where, std::string_view what, std::string_view found,
                  std::string_view expected) {
  fail(where, str_cat("unknown ", what, " ", quoted(found), ", expected one of ", expected));
}

std::string_view kind_name(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      break;
  }
  return "an object";
}

std::string shown_json(const Json& value) {
  // A container is named, not dumped: it may be megabytes.
  if (value.is_array() || value.is_object()) {
    return std::string(kind_name(value));
  }
  return value.is_string() ? quoted(value.text(), 40) : quoted(io::dump_compact(value), 40);
}

const Json* find_value(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const std::string& require_text(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_string()) {
    fail(where, str_cat("'", key, "' is ", value == nullptr ? "missing" : kind_name(*value),
                        ", expected a string"));
  }
  return value->text();
}

std::string optional_text(const Json& object, std::string_view key, std::string_view where) {
  return find_value(object, key) == nullptr ? std::string() : require_text(object, key, where);
}

bool read_flag(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_value(object, key);
  if (value == nullptr) {
    return false;
  }
  const std::optional<bool> flag = value->as_boolean();
  if (!flag) {
    fail(where, str_cat("'", key, "' is ", shown_json(*value), ", expected true or false"));
  }
  return *flag;
}

}  // namespace tessera::deepseek_v41
