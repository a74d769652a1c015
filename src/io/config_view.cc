#include "io/config_view.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::io {
namespace {

// What was found, short enough for a message.
std::string shown(const Json& value) {
  constexpr size_t kLimit = 60;
  switch (value.kind()) {
    case Json::Kind::string:
      return str_cat("the string ", quoted(value.text(), kLimit));
    case Json::Kind::array:
      return str_cat("an array of ", value.items().size(), " items");
    case Json::Kind::object:
      return str_cat("an object of ", value.members().size(), " keys");
    case Json::Kind::number:
      return value.text().size() <= kLimit ? value.text() : value.text().substr(0, kLimit) + "...";
    case Json::Kind::null:
    case Json::Kind::boolean:
      return dump_compact(value);
  }
  return "";
}

[[noreturn]] void fail(const std::string& where, std::string_view key, std::string_view expected,
                       const Json& found) {
  throw Error(ErrorCode::bad_file,
              str_cat(where, ": ", quoted(key), " must be ", expected, ", found ", shown(found)));
}

std::string range_text(std::string_view what, int64_t smallest, int64_t largest) {
  return str_cat(what, " from ", smallest, " to ", largest);
}

bool is_in_range(const std::optional<int64_t>& value, int64_t smallest, int64_t largest) {
  return value.has_value() && *value >= smallest && *value <= largest;
}

}  // namespace

ConfigView::ConfigView(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw Error(ErrorCode::bad_file,
                str_cat(where_, ": must be a JSON object, found ", shown(object)));
  }
}

const Json* ConfigView::find(std::string_view key) const {
  const Json* value = object_->find(key);
  if (value == nullptr) {
    return nullptr;
  }
  read_.emplace(key);
  return value->is_null() ? nullptr : value;
}

const Json& ConfigView::require(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    throw Error(
        ErrorCode::bad_file,
        str_cat(where_, ": ", quoted(key),
                object_->find(key) == nullptr ? " is missing" : " is null", "; it is needed here"));
  }
  return *value;
}

int64_t ConfigView::integer(std::string_view key, int64_t smallest, int64_t largest) const {
  const Json& value = require(key);
  const std::optional<int64_t> number = value.as_int64();
  if (!is_in_range(number, smallest, largest)) {
    fail(where_, key, range_text("an integer", smallest, largest), value);
  }
  return *number;
}

int64_t ConfigView::integer_or(std::string_view key, int64_t smallest, int64_t largest,
                               int64_t value) const {
  return find(key) == nullptr ? value : integer(key, smallest, largest);
}

double ConfigView::number(std::string_view key) const {
  const Json& value = require(key);
  const std::optional<double> number = value.as_double();
  if (!number.has_value()) {
    fail(where_, key, "a number", value);
  }
  return *number;
}

double ConfigView::number_or(std::string_view key, double value) const {
  return find(key) == nullptr ? value : number(key);
}

bool ConfigView::boolean_or(std::string_view key, bool value) const {
  const Json* found = find(key);
  if (found == nullptr) {
    return value;
  }
  const std::optional<bool> flag = found->as_boolean();
  if (!flag.has_value()) {
    fail(where_, key, "true or false", *found);
  }
  return *flag;
}

std::string ConfigView::text(std::string_view key) const {
  const Json& value = require(key);
  if (!value.is_string()) {
    fail(where_, key, "a string", value);
  }
  return value.text();
}

std::string ConfigView::text_or(std::string_view key, std::string_view value) const {
  return find(key) == nullptr ? std::string(value) : text(key);
}

std::vector<int64_t> ConfigView::integers(std::string_view key, int64_t smallest,
                                          int64_t largest) const {
  const Json& value = require(key);
  if (!value.is_array()) {
    fail(where_, key, "an array of integers", value);
  }
  std::vector<int64_t> numbers;
  for (const Json& item : value.items()) {
    const std::optional<int64_t> number = item.as_int64();
    if (!is_in_range(number, smallest, largest)) {
      fail(where_, str_cat(key, "[", numbers.size(), "]"),
           range_text("an integer", smallest, largest), item);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<ConfigView> ConfigView::child(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    fail(where_, key, "an object", *value);
  }
  return ConfigView(*value, str_cat(where_, ": ", key));
}

bool ConfigView::has(std::string_view key) const { return find(key) != nullptr; }

void ConfigView::ignore(std::string_view key) const { read_.emplace(key); }

std::vector<std::string> ConfigView::unread_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->members()) {
    if (!read_.contains(key)) {
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace tessera::io
