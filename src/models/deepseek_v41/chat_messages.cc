#include "models/deepseek_v41/chat_messages.h"

#include <array>
#include <map>
#include <set>

#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"
#include "models/deepseek_v41/prompt_json.h"
#include "models/deepseek_v41/prompt_tools.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

Role read_role(const Json& message, const std::string& where) {
  const std::string& role = require_text(message, "role", where);
  const std::string inner = where + ".role";
  if (role == "developer") {
    fail(inner, "'developer' is no role of this model; send role system");
  }
  if (role == "function") {
    fail(inner, "'function' is no role of this model; send role tool with 'tool_call_id'");
  }
  return read_name(role, kRoleNames, "role", inner);
}

std::vector<ToolCall> read_calls(const Json& list, const std::string& where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of tool calls, found ", kind_name(list)));
  }
  if (list.items().empty()) {
    fail(where, "the list is empty; leave it out, or send at least one call");
  }
  std::set<std::string_view> ids;
  for (size_t i = 0; i < list.items().size(); ++i) {
    const Json& entry = list.items()[i];
    const std::string at = str_cat(where, "[", i, "]");
    if (!entry.is_object()) {
      fail(at, str_cat("expected a tool call, an object with id, type and function, found ",
                       kind_name(entry)));
    }
    require_text(entry, "type", at);
    const std::string& id = require_text(entry, "id", at);
    if (!ids.insert(id).second) {
      fail(at + ".id",
           str_cat(quoted(id, 80), " is used twice in this message; ids of its calls must differ"));
    }
  }
  return tool_calls_from_json(list, where);
}

void read_assistant(const Json& json, const std::string& where, Message& message) {
  for (const std::string_view key : {"function_call", "audio"}) {
    if (find_value(json, key) != nullptr) {
      fail(str_cat(where, ".", key), "not supported; send 'tool_calls' and 'content'");
    }
  }
  if (const Json* calls = find_value(json, "tool_calls")) {
    message.tool_calls = read_calls(*calls, where + ".tool_calls");
  }
  if (find_value(json, "content") == nullptr && message.tool_calls.empty()) {
    fail(where, "an assistant message needs 'content' (a string, maybe empty) or 'tool_calls'");
  }
  message.reasoning = optional_text(json, "reasoning_content", where);
  message.is_open = read_flag(json, "prefix", where) || read_flag(json, "wo_eos", where);
}

// Members with which case files say what a request says elsewhere.
void refuse_request_members(const Json& json, const std::string& where) {
  for (const std::string_view key : {"tools", "response_format"}) {
    if (find_value(json, key) != nullptr) {
      fail(str_cat(where, ".", key), "belongs in the request, beside 'messages'");
    }
  }
}

Message read_message(const Json& json, const std::string& where, ImagePaths paths) {
  if (!json.is_object()) {
    fail(where,
         str_cat("expected a message, an object with role and content, found ", kind_name(json)));
  }
  Message message;
  message.role = read_role(json, where);
  refuse_request_members(json, where);
  const bool is_assistant = message.role == Role::assistant;
  const bool has_images = !is_assistant && message.role != Role::latest_reminder;
  const Json* content = json.find("content");
  if (is_assistant) {
    content = find_value(json, "content");
    read_assistant(json, where, message);
  } else if (content == nullptr) {
    fail(where, "'content' is missing, expected a string or a list of content parts");
  }
  if (content != nullptr) {
    message.content =
        chat_content_from_json(*content, where + ".content",
                               has_images ? ContentParts::text_and_images : ContentParts::text,
                               is_assistant ? "assistant" : "latest_reminder", paths);
  }
  if (message.role == Role::tool) {
    message.call_id = require_text(json, "tool_call_id", where);
  }
  message.task = task_from_json(json, where);
  return message;
}

// One result for each call of messages[index]; returns the index of the message behind them.
size_t check_results(const std::vector<Message>& messages, size_t index, std::string_view where) {
  std::map<std::string_view, bool> answered;
  for (const ToolCall& call : messages[index].tool_calls) {
    answered.emplace(call.id, false);
  }
  size_t next = index + 1;
  for (; next < messages.size() && messages[next].role == Role::tool; ++next) {
    const std::string at = str_cat(where, "[", next, "].tool_call_id");
    const std::string id = quoted(messages[next].call_id, 80);
    const auto call = answered.find(messages[next].call_id);
    if (call == answered.end()) {
      fail(at, str_cat(id, " is the id of no call in ", where, "[", index, "].tool_calls"));
    }
    if (call->second) {
      fail(at, str_cat("call ", id, " has its result already; send one result for each call"));
    }
    call->second = true;
  }
  for (size_t i = 0; i < messages[index].tool_calls.size(); ++i) {
    const std::string& id = messages[index].tool_calls[i].id;
    if (!answered[id]) {
      fail(str_cat(where, "[", index, "].tool_calls[", i, "]"),
           str_cat("call ", quoted(id, 80),
                   " has no result; a tool message for each call must follow this message"));
    }
  }
  return next;
}

void check_order(const std::vector<Message>& messages, std::string_view where) {
  for (size_t i = 0; i < messages.size();) {
    const Message& message = messages[i];
    if (message.role == Role::tool) {
      fail(str_cat(where, "[", i, "]"),
           "a tool message that answers no call; it must follow an assistant message with "
           "tool_calls");
    }
    if (message.is_open && i + 1 < messages.size()) {
      fail(str_cat(where, "[", i, "].prefix"),
           "only the last message can be continued; leave 'prefix' out here");
    }
    i = message.tool_calls.empty() ? i + 1 : check_results(messages, i, where);
  }
}

}  // namespace

std::vector<Message> chat_messages_from_json(const Json& list, std::string_view where,
                                             ImagePaths paths) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of messages, found ", kind_name(list)));
  }
  if (list.items().empty()) {
    fail(where, "the list is empty; send at least one message");
  }
  std::vector<Message> messages;
  messages.reserve(list.items().size());
  for (size_t i = 0; i < list.items().size(); ++i) {
    messages.push_back(read_message(list.items()[i], str_cat(where, "[", i, "]"), paths));
  }
  check_order(messages, where);
  return messages;
}

}  // namespace tessera::deepseek_v41
