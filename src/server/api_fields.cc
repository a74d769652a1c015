#include "server/api_fields.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "server/api_error.h"

namespace tessera::server {

using io::Json;

Json parse_body(std::string_view body) {
  std::optional<Json> json;
  try {
    json = io::parse_json(body, "request body");
  } catch (const Error& error) {
    throw ApiError(ApiFault::invalid_request, error.what());
  }
  if (!json->is_object()) {
    throw ApiError(ApiFault::invalid_request,
                   str_cat("request body: found ", shown(*json), ", expected a JSON object"));
  }
  return std::move(*json);
}

std::string shown(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      return "an object";
    case Json::Kind::string:
      return quoted(value.text(), 40);
    default:
      return str_cat(io::dump_compact(value).substr(0, 40));
  }
}

void refuse_value(const std::string& path, const Json& value, std::string_view expected) {
  refuse(path, str_cat("found ", shown(value), ", expected ", expected));
}

int64_t integer_of(const Json& value, const std::string& path, int64_t low, int64_t high) {
  const std::optional<int64_t> number = value.as_int64();
  if (!number || *number < low || *number > high) {
    refuse_value(path, value, str_cat("an integer from ", low, " to ", high));
  }
  return *number;
}

double number_of(const Json& value, const std::string& path, double low, double high) {
  const std::optional<double> number = value.as_double();
  if (!number || !(*number >= low && *number <= high)) {
    refuse_value(path, value, str_cat("a number from ", low, " to ", high));
  }
  return *number;
}

const Json* Fields::find(std::string_view name) {
  known_.emplace(name);
  const Json* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    refuse_value(path(name), *value, "true or false");
  }
  return value->as_boolean();
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = find(name);
  return value == nullptr ? std::nullopt : std::optional(integer_of(*value, path(name), low, high));
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* value = find(name);
  return value == nullptr ? std::nullopt : std::optional(number_of(*value, path(name), low, high));
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse_value(path(name), *value, "a string");
  }
  return value->text();
}

void Fields::know(std::span<const std::string_view> names) {
  known_.insert(names.begin(), names.end());
}

void Fields::refuse_all(std::span<const RefusedField> fields) {
  for (const RefusedField& field : fields) {
    const Json* value = find(field.name);
    if (value == nullptr) {
      continue;
    }
    const std::string text = io::dump_compact(*value);
    if (std::find(field.harmless.begin(), field.harmless.end(), text) == field.harmless.end()) {
      refuse(path(field.name), field.advice.empty() ? std::string("not supported; leave it out")
                                                    : str_cat("not supported; ", field.advice));
    }
  }
}

int64_t Fields::unknown() const {
  return std::count_if(
      object_.members().begin(), object_.members().end(),
      [this](const Json::Member& member) { return !known_.contains(member.first); });
}

std::string Fields::path(std::string_view name) const { return str_cat(prefix_, name); }

}  // namespace tessera::server
