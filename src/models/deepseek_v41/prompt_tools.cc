#include "models/deepseek_v41/prompt_tools.h"

#include <optional>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

constexpr std::string_view kNamespaceSeparator = "::";

// Outside text inside a message, without quotation marks as in the reference.
std::string shown(std::string_view text) {
  const std::string result = quoted(text);
  return result.substr(1, result.size() - 2);
}

struct Namespace {
  std::string name;         // empty: none
  std::string description;  // empty: none
};

void read_namespace(const Json& object, std::string_view where, Namespace& result) {
  const Json* value = object.find("namespace");
  if (value == nullptr || value->is_null()) {
    return;
  }
  Namespace read;
  if (value->is_string()) {
    read.name = value->text();
  } else if (value->is_object()) {
    read.name = require_text(*value, "name", where);
    if (const Json* text = value->find("description"); text != nullptr && !text->is_null()) {
      read.description = require_text(*value, "description", where);
    }
  } else {
    fail(where, str_cat("'namespace' is neither a string nor an object with a name, but ",
                        kind_name(*value)));
  }
  if (!result.name.empty() && result.name != read.name) {
    fail(where,
         str_cat("Conflicting tool namespaces: ", shown(result.name), " != ", shown(read.name)));
  }
  result = std::move(read);
}

// "namespace::name"; `name` may be qualified already.
std::string qualify(const std::string& name, const Namespace& given, std::string_view where) {
  const size_t at = name.find(kNamespaceSeparator);
  if (at == std::string::npos) {
    return given.name.empty() ? name : str_cat(given.name, kNamespaceSeparator, name);
  }
  const std::string_view own = std::string_view(name).substr(0, at);
  const std::string_view bare = std::string_view(name).substr(at + kNamespaceSeparator.size());
  if (!given.name.empty() && given.name != own) {
    fail(where, str_cat("Conflicting tool namespaces: ", shown(given.name), " != ", shown(own)));
  }
  if (bare.find(kNamespaceSeparator) != std::string_view::npos) {
    fail(where, str_cat("Tool name must not contain '::': ", shown(bare)));
  }
  return name;
}

const Json& require_function(const Json& entry, std::string_view where) {
  if (!entry.is_object()) {
    fail(where, str_cat("expected an object with 'function', found ", kind_name(entry)));
  }
  const Json* type = entry.find("type");
  if (type != nullptr && type->text() != "function") {
    fail(where,
         str_cat("tools of type ", shown_json(*type), " are not supported, expected function"));
  }
  const Json* function = entry.find("function");
  if (function == nullptr || !function->is_object()) {
    fail(where, str_cat("'function' is ", function == nullptr ? "missing" : kind_name(*function),
                        ", expected an object with a name"));
  }
  return *function;
}

std::optional<Json> parse_arguments(const std::string& text) {
  try {
    return io::parse_json(text, "arguments", {.allow_duplicate_keys = true});
  } catch (const Error&) {
    // Not JSON: an outcome the format provides for, not a failure.
    return std::nullopt;
  }
}

std::vector<ToolArgument> read_arguments(const Json& value, const std::string& where) {
  std::optional<Json> object;
  if (value.is_object()) {
    object = value;
  } else if (value.is_string()) {
    object = parse_arguments(value.text());
    if (object && object->is_string()) {
      object = parse_arguments(object->text());
    }
  } else {
    fail(where, str_cat("'arguments' is neither a string nor an object, but ", kind_name(value)));
  }
  std::vector<ToolArgument> arguments;
  if (!object || !object->is_object()) {
    arguments.push_back({"arguments", value.text(), true});
    return arguments;
  }
  for (const auto& [name, argument] : object->members()) {
    arguments.push_back({name, argument.is_string() ? argument.text() : io::dump_python(argument),
                         argument.is_string()});
  }
  return arguments;
}

ToolCall read_call(const Json& entry, const std::string& where) {
  const Json& function = require_function(entry, where);
  Namespace given;
  read_namespace(entry, where, given);
  read_namespace(function, where, given);
  ToolCall call;
  if (const Json* id = entry.find("id"); id != nullptr && !id->is_null()) {
    call.id = require_text(entry, "id", where);
  }
  call.name = qualify(require_text(function, "name", where), given, where);
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) {
    fail(where, "'arguments' is missing, expected a JSON object as a string");
  }
  call.arguments = read_arguments(*arguments, where);
  return call;
}

}  // namespace

Json tool_function_from_json(const Json& entry, std::string_view where) {
  const Json& function = require_function(entry, where);
  Namespace given;
  read_namespace(entry, where, given);
  read_namespace(function, where, given);
  Json schema = Json::object();
  schema.members().reserve(function.members().size());
  for (const auto& [key, value] : function.members()) {
    if (key != "namespace") {
      schema.members().emplace_back(key, value);
    }
  }
  schema.set("name", Json::string(qualify(require_text(function, "name", where), given, where)));
  if (!given.description.empty()) {
    const Json* own = schema.find("description");
    const bool has_own = own != nullptr && !own->text().empty();
    schema.set("description", Json::string(has_own ? str_cat(given.description, "\n", own->text())
                                                   : given.description));
  }
  return schema;
}

std::vector<std::string> tools_from_json(const Json& list, std::string_view where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of tools, found ", kind_name(list)));
  }
  std::vector<std::string> tools;
  for (size_t i = 0; i < list.items().size(); ++i) {
    tools.push_back(
        io::dump_python(tool_function_from_json(list.items()[i], str_cat(where, "[", i, "]"))));
  }
  return tools;
}

std::vector<ToolCall> tool_calls_from_json(const Json& list, std::string_view where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of tool calls, found ", kind_name(list)));
  }
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < list.items().size(); ++i) {
    calls.push_back(read_call(list.items()[i], str_cat(where, "[", i, "]")));
  }
  return calls;
}

}  // namespace tessera::deepseek_v41
