// The normal form of strict tools (tool_schema.h).
#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>

#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"
#include "models/deepseek_v41/tool_schema.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

Json normalise(const Json& schema, const std::string& where, bool is_top);

void put(Json& out, std::string_view key, Json value) {
  out.members().emplace_back(key, std::move(value));
}

void copy_text(const Json& schema, std::string_view key, const std::string& where, Json& out) {
  if (find_value(schema, key) != nullptr) {
    put(out, key, Json::string(require_text(schema, key, where)));
  }
}

Json normalise_map(const Json& map, const std::string& where) {
  if (!map.is_object()) {
    fail(where, str_cat("found ", kind_name(map), ", expected an object of schemas"));
  }
  Json out = Json::object();
  out.members().reserve(map.members().size());
  for (const auto& [name, schema] : map.members()) {
    put(out, name, normalise(schema, str_cat(where, "[", quoted(name, 40), "]"), false));
  }
  return out;
}

// `required`, if it is there, names every property once and nothing else.
void check_required(const Json& schema, const Json& properties, const std::string& where) {
  const Json* required = find_value(schema, "required");
  if (required == nullptr) {
    return;
  }
  const std::string at = where + ".required";
  if (!required->is_array()) {
    fail(at, str_cat("found ", kind_name(*required), ", expected a list of property names"));
  }
  std::set<std::string_view> missing;
  for (const auto& [name, property] : properties.members()) {
    missing.insert(name);
  }
  for (const Json& item : required->items()) {
    if (!item.is_string() || missing.erase(item.text()) == 0) {
      fail(at, str_cat(shown_json(item), " is named twice or is no property of the object"));
    }
  }
  if (!missing.empty()) {
    fail(at, str_cat("does not name ", quoted(*missing.begin(), 40),
                     "; a strict tool requires every property (an optional one can have a type "
                     "list with null)"));
  }
}

Json normalise_object(const Json& schema, const std::string& where, bool is_top) {
  const Json* given = find_value(schema, "properties");
  Json properties =
      given == nullptr ? Json::object() : normalise_map(*given, where + ".properties");
  if (properties.members().empty() && !is_top) {
    fail(where, "a strict tool has no object without properties below the top");
  }
  if (read_flag(schema, "additionalProperties", where)) {
    fail(where + ".additionalProperties", "is true; a strict tool has no further properties");
  }
  check_required(schema, properties, where);
  Json required = Json::array();
  for (const auto& [name, property] : properties.members()) {
    required.items().push_back(Json::string(name));
  }
  Json out = Json::object({{"type", Json::string("object")}});
  put(out, "properties", std::move(properties));
  put(out, "additionalProperties", Json::boolean(false));
  put(out, "required", std::move(required));
  copy_text(schema, "description", where, out);
  for (const std::string_view key : {"$def", "$defs", "definitions"}) {
    if (const Json* map = find_value(schema, key)) {
      put(out, key, normalise_map(*map, str_cat(where, ".", key)));
    }
  }
  return out;
}

Json normalise_string(const Json& schema, const std::string& where) {
  constexpr std::array<std::string_view, 5> kFormats = {"email", "hostname", "ipv4", "ipv6",
                                                        "uuid"};
  Json out = Json::object({{"type", Json::string("string")}});
  copy_text(schema, "description", where, out);
  copy_text(schema, "pattern", where, out);
  const std::string format = optional_text(schema, "format", where);
  if (!format.empty() && std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
    fail_unknown(where + ".format", "format", format, "email, hostname, ipv4, ipv6, uuid");
  }
  copy_text(schema, "format", where, out);
  if (const Json* values = find_value(schema, "enum")) {
    if (!values->is_array() || !std::all_of(values->items().begin(), values->items().end(),
                                            [](const Json& value) { return value.is_string(); })) {
      fail(where + ".enum", "expected a list of strings, as the type is string");
    }
    put(out, "enum", *values);
  }
  return out;
}

Json normalise_number(const Json& schema, const std::string& where, const std::string& type) {
  const bool is_integer = type == "integer";
  Json out = Json::object({{"type", Json::string(type)}});
  copy_text(schema, "description", where, out);
  for (const std::string_view key : {"const", "default", "minimum", "maximum", "exclusiveMinimum",
                                     "exclusiveMaximum", "multipleOf"}) {
    const Json* value = find_value(schema, key);
    if (value == nullptr) {
      continue;
    }
    if (!value->is_number() || (is_integer && !value->as_int64())) {
      fail(str_cat(where, ".", key), str_cat("found ", shown_json(*value), ", expected ",
                                             is_integer ? "an integer of 64 bits" : "a number"));
    }
    put(out, key, *value);
  }
  return out;
}

Json normalise_list(const Json& schema, const std::string& where) {
  const Json* items = schema.find("items");
  if (items == nullptr) {
    fail(where, "a list without 'items'; a strict tool says what a list holds");
  }
  Json out = Json::object({{"type", Json::string("array")}});
  put(out, "items", normalise(*items, where + ".items", false));
  copy_text(schema, "description", where, out);
  return out;
}

Json normalise_type_list(const Json& schema, const Json& types, const std::string& where) {
  constexpr std::array<std::string_view, 5> kSimple = {"string", "number", "integer", "boolean",
                                                       "null"};
  for (const Json& type : types.items()) {
    if (std::find(kSimple.begin(), kSimple.end(), type.text()) == kSimple.end()) {
      fail(where + ".type", str_cat(shown_json(type), " in a list of types, expected string, ",
                                    "number, integer, boolean or null; write others with anyOf"));
    }
  }
  Json out = Json::object({{"type", types}});
  copy_text(schema, "description", where, out);
  return out;
}

Json normalise_typed(const Json& schema, const Json& type, const std::string& where, bool is_top) {
  if (type.is_array()) {
    return normalise_type_list(schema, type, where);
  }
  const std::string& name = type.text();
  if (name == "object") {
    return normalise_object(schema, where, is_top);
  }
  if (name == "string") {
    return normalise_string(schema, where);
  }
  if (name == "number" || name == "integer") {
    return normalise_number(schema, where, name);
  }
  if (name == "array") {
    return normalise_list(schema, where);
  }
  if (name != "boolean" && name != "null") {
    fail(where + ".type", str_cat("found ", shown_json(type), ", expected object, string, number, ",
                                  "integer, boolean, array or null"));
  }
  Json out = Json::object({{"type", type}});
  copy_text(schema, "description", where, out);
  return out;
}

Json normalise_alternatives(const Json& schema, const Json& list, const std::string& where) {
  const std::string at = where + ".anyOf";
  if (!list.is_array()) {
    fail(at, str_cat("found ", kind_name(list), ", expected a list of schemas"));
  }
  Json alternatives = Json::array();
  for (size_t i = 0; i < list.items().size(); ++i) {
    alternatives.items().push_back(normalise(list.items()[i], str_cat(at, "[", i, "]"), false));
  }
  Json out = Json::object();
  put(out, "anyOf", std::move(alternatives));
  copy_text(schema, "description", where, out);
  return out;
}

Json normalise(const Json& schema, const std::string& where, bool is_top) {
  if (const Json* type = schema.find("type")) {
    return normalise_typed(schema, *type, where, is_top);
  }
  if (const Json* list = schema.find("anyOf")) {
    return normalise_alternatives(schema, *list, where);
  }
  if (schema.find("$ref") != nullptr) {
    return Json::object({{"$ref", Json::string(require_text(schema, "$ref", where))}});
  }
  fail(where, "a schema of a strict tool needs one of 'type', 'anyOf', '$ref'");
}

}  // namespace

Json strict_parameters(const Json& schema, std::string_view where) {
  const Json empty = Json::object({{"type", Json::string("object")}});
  Json out = normalise(schema.is_null() ? empty : schema, std::string(where), true);
  const Json* type = out.find("type");
  if (type == nullptr || type->text() != "object") {
    fail(where, "the parameters of a tool are an object (\"type\": \"object\")");
  }
  check_schema(out, where);
  return out;
}

}  // namespace tessera::deepseek_v41
