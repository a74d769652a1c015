#include "models/deepseek_v41/chat_tools.h"

#include <algorithm>
#include <set>

#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"
#include "models/deepseek_v41/prompt_tools.h"
#include "models/deepseek_v41/tool_schema.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

constexpr size_t kMaxNameBytes = 128;
constexpr std::string_view kNamespaceSeparator = "::";

struct Tool {
  std::string name;  // qualified
  std::string schema;
};

void check_name(std::string_view name, std::string_view where) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (name.empty() || name.size() > kMaxNameBytes || !is_plain) {
    fail(where, str_cat(quoted(name, 40), " is no name of 1 to ", kMaxNameBytes,
                        " letters, digits, '_' and '-'"));
  }
}

void check_names(const Json& entry, const std::string& name, const std::string& where) {
  const bool has_namespace = find_value(entry, "namespace") != nullptr ||
                             find_value(*entry.find("function"), "namespace") != nullptr;
  const size_t at = name.find(kNamespaceSeparator);
  if (!has_namespace || at == std::string::npos) {
    return check_name(name, where + ".function.name");
  }
  check_name(std::string_view(name).substr(0, at), where + ".namespace");
  check_name(std::string_view(name).substr(at + kNamespaceSeparator.size()),
             where + ".function.name");
}

void check_parameters(const Json& parameters, const std::string& where) {
  if (!parameters.is_object()) {
    fail(where, str_cat("found ", shown_json(parameters), ", expected a JSON schema, an object"));
  }
  const Json* type = parameters.find("type");
  if (type == nullptr || type->text() != "object" || !type->is_string()) {
    fail(where + ".type",
         str_cat(type == nullptr ? "missing" : "found ", type == nullptr ? "" : shown_json(*type),
                 ", expected \"object\": arguments are the members of an object"));
  }
  check_schema(parameters, where);
}

Tool read_tool(const Json& entry, const std::string& where) {
  if (!entry.is_object()) {
    fail(where,
         str_cat("expected a tool, an object with type and function, found ", kind_name(entry)));
  }
  require_text(entry, "type", where);
  const Json function = tool_function_from_json(entry, where);
  const std::string inner = where + ".function";
  Tool tool;
  tool.name = function.find("name")->text();
  check_names(entry, tool.name, where);
  const std::string description = optional_text(function, "description", inner);
  const Json* parameters = find_value(function, "parameters");
  if (read_flag(function, "strict", inner)) {
    const Json none;
    tool.schema = io::dump_python(
        Json::object({{"name", Json::string(tool.name)},
                      {"description", Json::string(description)},
                      {"parameters", strict_parameters(parameters == nullptr ? none : *parameters,
                                                       inner + ".parameters")}}));
    return tool;
  }
  if (parameters != nullptr) {
    check_parameters(*parameters, inner + ".parameters");
  }
  tool.schema = io::dump_python(function);
  return tool;
}

std::vector<Tool> read_tools(const Json& list, const std::string& where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of tools, found ", kind_name(list)));
  }
  std::vector<Tool> tools;
  tools.reserve(list.items().size());
  std::set<std::string_view> names;  // of the tools, whose vector does not grow beyond the reserve
  for (size_t i = 0; i < list.items().size(); ++i) {
    const std::string at = str_cat(where, "[", i, "]");
    tools.push_back(read_tool(list.items()[i], at));
    if (!names.insert(tools.back().name).second) {
      fail(at + ".function.name", str_cat(quoted(tools.back().name, 40),
                                          " is the name of another tool too; names must differ"));
    }
  }
  return tools;
}

enum class Choice { automatic, none, required };

constexpr std::string_view kChoices =
    "none, auto, required or {\"type\":\"function\",\"function\":{\"name\":...}}";

// A choice; a function leaves only that tool in `tools`.
Choice read_choice(const Json& choice, const std::string& where, std::vector<Tool>& tools) {
  if (choice.is_string()) {
    const std::string& name = choice.text();
    if (name != "none" && name != "auto" && name != "required") {
      fail_unknown(where, "tool_choice", name, kChoices);
    }
    return name == "none" ? Choice::none : name == "auto" ? Choice::automatic : Choice::required;
  }
  if (!choice.is_object()) {
    fail(where, str_cat("found ", shown_json(choice), ", expected ", kChoices));
  }
  require_text(choice, "type", where);
  const std::string name = tool_function_from_json(choice, where).find("name")->text();
  const auto tool = std::find_if(tools.begin(), tools.end(),
                                 [&](const Tool& known) { return known.name == name; });
  if (tool == tools.end()) {
    fail(where, str_cat("no tool of the request is named ", quoted(name, 40)));
  }
  Tool chosen = std::move(*tool);
  tools.clear();
  tools.push_back(std::move(chosen));
  return Choice::required;
}

}  // namespace

ChatTools chat_tools_from_json(const Json& body, std::string_view where) {
  std::vector<Tool> tools;
  if (const Json* list = find_value(body, "tools")) {
    tools = read_tools(*list, str_cat(where, ".tools"));
  }
  Choice choice = Choice::automatic;
  if (const Json* given = find_value(body, "tool_choice")) {
    choice = read_choice(*given, str_cat(where, ".tool_choice"), tools);
  }
  if (const Json* functions = find_value(body, "functions");
      functions != nullptr && !functions->items().empty()) {
    fail(str_cat(where, ".functions"), "not supported; send 'tools'");
  }
  ChatTools result;
  if (choice != Choice::none) {
    // Without tools there is nothing to force: deepseek-recipe then ignores `required`.
    result.is_forced = choice == Choice::required && !tools.empty();
    for (Tool& tool : tools) {
      result.schemas.push_back(std::move(tool.schema));
    }
  }
  return result;
}

}  // namespace tessera::deepseek_v41
