#include "models/deepseek_v41/tool_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

enum class Keyword {
  schema,
  schema_map,
  schema_list,  // not empty
  schema_or_names_map,
  text,
  flag,
  number,
  positive,
  count,  // an integer of at least 0
  list,
  object,
  names,  // strings that differ
  names_map,
  types,
};

// Keywords of JSON Schema 2020-12 and, as there, of its predecessors that it still describes.
constexpr std::array<std::pair<std::string_view, Keyword>, 57> kKeywords = {{
    {"$anchor", Keyword::text},
    {"$comment", Keyword::text},
    {"$defs", Keyword::schema_map},
    {"$dynamicAnchor", Keyword::text},
    {"$dynamicRef", Keyword::text},
    {"$id", Keyword::text},
    {"$ref", Keyword::text},
    {"$schema", Keyword::text},
    {"$vocabulary", Keyword::object},
    {"additionalProperties", Keyword::schema},
    {"allOf", Keyword::schema_list},
    {"anyOf", Keyword::schema_list},
    {"contains", Keyword::schema},
    {"contentEncoding", Keyword::text},
    {"contentMediaType", Keyword::text},
    {"contentSchema", Keyword::schema},
    {"definitions", Keyword::schema_map},
    {"dependencies", Keyword::schema_or_names_map},
    {"dependentRequired", Keyword::names_map},
    {"dependentSchemas", Keyword::schema_map},
    {"deprecated", Keyword::flag},
    {"description", Keyword::text},
    {"else", Keyword::schema},
    {"enum", Keyword::list},
    {"examples", Keyword::list},
    {"exclusiveMaximum", Keyword::number},
    {"exclusiveMinimum", Keyword::number},
    {"format", Keyword::text},
    {"if", Keyword::schema},
    {"items", Keyword::schema},
    {"maxContains", Keyword::count},
    {"maxItems", Keyword::count},
    {"maxLength", Keyword::count},
    {"maxProperties", Keyword::count},
    {"maximum", Keyword::number},
    {"minContains", Keyword::count},
    {"minItems", Keyword::count},
    {"minLength", Keyword::count},
    {"minProperties", Keyword::count},
    {"minimum", Keyword::number},
    {"multipleOf", Keyword::positive},
    {"not", Keyword::schema},
    {"oneOf", Keyword::schema_list},
    {"pattern", Keyword::text},
    {"patternProperties", Keyword::schema_map},
    {"prefixItems", Keyword::schema_list},
    {"properties", Keyword::schema_map},
    {"propertyNames", Keyword::schema},
    {"readOnly", Keyword::flag},
    {"required", Keyword::names},
    {"then", Keyword::schema},
    {"title", Keyword::text},
    {"type", Keyword::types},
    {"unevaluatedItems", Keyword::schema},
    {"unevaluatedProperties", Keyword::schema},
    {"uniqueItems", Keyword::flag},
    {"writeOnly", Keyword::flag},
}};

constexpr std::array<std::string_view, 7> kTypes = {"array",  "boolean", "integer", "null",
                                                    "number", "object",  "string"};

std::optional<Keyword> find_keyword(std::string_view name) {
  const auto* at = std::lower_bound(
      kKeywords.begin(), kKeywords.end(), name,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return at == kKeywords.end() || at->first != name ? std::nullopt
                                                    : std::optional<Keyword>(at->second);
}

[[noreturn]] void fail_kind(const Json& found, std::string_view where, std::string_view expected) {
  fail(where, str_cat("found ", shown_json(found), ", expected ", expected));
}

bool is_type_name(const Json& value) {
  return value.is_string() && std::find(kTypes.begin(), kTypes.end(), value.text()) != kTypes.end();
}

void check_types(const Json& value, const std::string& where) {
  constexpr std::string_view kExpected =
      "one of array, boolean, integer, null, number, object, string, or a list of these that "
      "differ";
  std::set<std::string_view> seen;
  bool is_good = value.is_array() ? !value.items().empty() : is_type_name(value);
  for (const Json& item : value.items()) {
    is_good = is_good && is_type_name(item) && seen.insert(item.text()).second;
  }
  if (!is_good) {
    fail_kind(value, where, kExpected);
  }
}

void check_names(const Json& value, const std::string& where) {
  if (!value.is_array()) {
    fail_kind(value, where, "a list of names");
  }
  std::set<std::string_view> seen;
  for (const Json& item : value.items()) {
    if (!item.is_string()) {
      fail_kind(item, where, "names");
    }
    if (!seen.insert(item.text()).second) {
      fail(where, str_cat("names ", quoted(item.text(), 40), " twice"));
    }
  }
}

void check_number(const Json& value, Keyword keyword, const std::string& where) {
  const std::optional<double> number = value.as_double();
  if (!number) {
    fail_kind(value, where, "a number");
  }
  if (keyword == Keyword::positive && *number <= 0) {
    fail_kind(value, where, "a number above 0");
  }
  // A count may be spelled 3.0.
  if (keyword == Keyword::count && (*number < 0 || *number != std::trunc(*number))) {
    fail_kind(value, where, "an integer of at least 0");
  }
}

// References and what they can point at, found while walking a schema.
struct References {
  std::vector<std::pair<std::string, const Json*>> found;  // place, value
  std::set<std::string_view> anchors;
  bool has_id = false;
};

void walk(const Json& schema, const std::string& where, References& references);

void walk_map(const Json& value, Keyword keyword, const std::string& where,
              References& references) {
  if (!value.is_object()) {
    fail_kind(value, where, "an object");
  }
  for (const auto& [name, item] : value.members()) {
    const std::string at = str_cat(where, "[", quoted(name, 40), "]");
    if (keyword == Keyword::names_map ||
        (keyword == Keyword::schema_or_names_map && item.is_array())) {
      check_names(item, at);
    } else {
      walk(item, at, references);
    }
  }
}

void walk_list(const Json& value, const std::string& where, References& references) {
  if (!value.is_array() || value.items().empty()) {
    fail(where, str_cat("found ", value.is_array() ? "an empty list" : shown_json(value),
                        ", expected a list of at least one schema"));
  }
  for (size_t i = 0; i < value.items().size(); ++i) {
    walk(value.items()[i], str_cat(where, "[", i, "]"), references);
  }
}

void check_value(const Json& value, Keyword keyword, const std::string& where,
                 References& references) {
  switch (keyword) {
    case Keyword::schema:
      return walk(value, where, references);
    case Keyword::schema_map:
    case Keyword::schema_or_names_map:
    case Keyword::names_map:
      return walk_map(value, keyword, where, references);
    case Keyword::schema_list:
      return walk_list(value, where, references);
    case Keyword::number:
    case Keyword::positive:
    case Keyword::count:
      return check_number(value, keyword, where);
    case Keyword::names:
      return check_names(value, where);
    case Keyword::types:
      return check_types(value, where);
    case Keyword::text:
      return value.is_string() ? void() : fail_kind(value, where, "a string");
    case Keyword::flag:
      return value.is_boolean() ? void() : fail_kind(value, where, "true or false");
    case Keyword::list:
      return value.is_array() ? void() : fail_kind(value, where, "a list");
    case Keyword::object:
      return value.is_object() ? void() : fail_kind(value, where, "an object");
  }
}

void walk(const Json& schema, const std::string& where, References& references) {
  if (schema.is_boolean()) {
    return;
  }
  if (!schema.is_object()) {
    fail_kind(schema, where, "a schema, an object or a boolean");
  }
  for (const auto& [name, value] : schema.members()) {
    const std::optional<Keyword> keyword = find_keyword(name);
    if (!keyword) {
      continue;
    }
    const std::string at = str_cat(where, ".", name);
    check_value(value, *keyword, at, references);
    if (name == "$ref" || name == "$dynamicRef") {
      references.found.emplace_back(at, &value);
    } else if (name == "$anchor" || name == "$dynamicAnchor") {
      references.anchors.insert(value.text());
    }
    references.has_id = references.has_id || name == "$id";
  }
}

// One step of a JSON pointer, from its spelling in a URL fragment.
std::string unescape_step(std::string_view step) {
  std::string bytes;
  for (size_t i = 0; i < step.size(); ++i) {
    int code = 0;
    const std::string_view digits = step.substr(i + 1, 2);
    if (step[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, code, 16).ptr == digits.data() + 2) {
      bytes.push_back(static_cast<char>(code));
      i += 2;
    } else {
      bytes.push_back(step[i]);
    }
  }
  std::string name;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char next = bytes[i] == '~' && i + 1 < bytes.size() ? bytes[i + 1] : '\0';
    const bool is_escape = next == '0' || next == '1';
    name.push_back(!is_escape ? bytes[i] : next == '0' ? '~' : '/');
    i += is_escape ? 1 : 0;
  }
  return name;
}

// What "/properties/a" points at from `root`, or nullptr. `work` counts the members looked at.
const Json* resolve_pointer(const Json& root, std::string_view pointer, int64_t& work) {
  const Json* at = &root;
  while (at != nullptr && !pointer.empty()) {
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string name = unescape_step(pointer.substr(0, end));
    pointer.remove_prefix(end);
    work += static_cast<int64_t>(at->members().size() + name.size()) + 1;
    size_t index = 0;
    if (at->is_array()) {
      const bool is_item = parse_number(name, index) && index < at->items().size();
      at = is_item ? &at->items()[index] : nullptr;
    } else {
      at = at->find(name);
    }
  }
  return at;
}

void check_references(const Json& root, const References& references) {
  // References times members: a bound for schemas made to take long.
  constexpr int64_t kMaxWork = 20'000'000;
  int64_t work = 0;
  for (const auto& [where, value] : references.found) {
    const std::string_view reference = value->text();
    bool is_found = reference.empty() || reference == "#";
    if (reference.starts_with("#/")) {
      is_found = resolve_pointer(root, reference.substr(1), work) != nullptr;
    } else if (reference.starts_with('#')) {
      is_found = is_found || references.anchors.contains(reference.substr(1));
    } else if (!is_found) {
      fail(where, str_cat(quoted(reference, 40), " points outside the schema; put what it names ",
                          "under $defs and write #/$defs/NAME"));
    }
    if (!is_found) {
      fail(where, str_cat(quoted(reference, 40), " points at nothing in the schema"));
    }
    if (work > kMaxWork) {
      fail(where, "the schema has too many references and members to check; make it smaller");
    }
  }
}

bool is_other_draft(const Json& schema) {
  const Json* draft = schema.find("$schema");
  return draft != nullptr && draft->is_string() && !draft->text().empty() &&
         draft->text().find("draft/2020-12") == std::string::npos;
}

}  // namespace

void check_schema(const Json& schema, std::string_view where) {
  if (is_other_draft(schema)) {
    return;
  }
  References references;
  walk(schema, std::string(where), references);
  if (!references.has_id) {
    check_references(schema, references);
  }
}

}  // namespace tessera::deepseek_v41
