#include "models/deepseek_v41/chat_request.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/chat_messages.h"
#include "models/deepseek_v41/chat_tools.h"
#include "models/deepseek_v41/json_fields.h"
#include "models/deepseek_v41/tool_schema.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

// Chat specification 7.1, column DeepSeek; 0 turns thinking off.
constexpr std::array<std::pair<std::string_view, int>, 8> kEfforts = {{{"none", 0},
                                                                       {"minimal", 50},
                                                                       {"low", 50},
                                                                       {"medium", 75},
                                                                       {"high", 75},
                                                                       {"xhigh", 75},
                                                                       {"max", 100},
                                                                       {"ultra", 100}}};

// A level, or (our extension) an integer from 1 to 100.
int read_effort(const Json& value, const std::string& where) {
  if (value.is_string()) {
    return read_name(value.text(), kEfforts, "reasoning_effort", where);
  }
  const std::optional<int64_t> number = value.is_integer() ? value.as_int64() : std::nullopt;
  if (!number || *number < 1 || *number > 100) {
    fail(where, str_cat("found ", shown_json(value),
                        ", expected none, minimal, low, medium, high, xhigh, max, ultra or an "
                        "integer from 1 to 100"));
  }
  return static_cast<int>(*number);
}

// {"type":"enabled"}; adaptive is served as enabled.
bool read_thinking(const Json& value, const std::string& where) {
  if (!value.is_object()) {
    fail(where, str_cat("found ", shown_json(value),
                        ", expected {\"type\":\"enabled\"} or {\"type\":\"disabled\"}"));
  }
  constexpr std::array<std::pair<std::string_view, bool>, 3> kTypes = {
      {{"enabled", true}, {"disabled", false}, {"adaptive", true}}};
  return read_name(require_text(value, "type", where), kTypes, "type of thinking", where);
}

void read_reasoning(const Json& body, std::string_view where, ChatRequest& request) {
  if (const Json* thinking = find_value(body, "thinking")) {
    request.is_thinking = read_thinking(*thinking, str_cat(where, ".thinking"));
  }
  if (const Json* value = find_value(body, "reasoning_effort")) {
    const int effort = read_effort(*value, str_cat(where, ".reasoning_effort"));
    if (effort > 0) {
      request.effort = effort;
    }
    if (effort == 0 || !request.is_thinking.has_value()) {
      request.is_thinking = effort > 0;
    }
  }
}

bool mentions_json(std::string_view text) {
  constexpr std::string_view kWord = "json";
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         }) != text.end();
}

bool mentions_json(const std::vector<Message>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const Message& message) {
    return std::any_of(message.content.begin(), message.content.end(),
                       [](const ContentBlock& block) { return mentions_json(block.text); });
  });
}

enum class Format { text, json_object, json_schema };

// The format as the prompt shows it; empty for text.
std::string read_format(const Json& format, const std::string& where, ChatRequest& request) {
  if (!format.is_object()) {
    fail(where, str_cat("found ", shown_json(format), ", expected an object with a type"));
  }
  constexpr std::array<std::pair<std::string_view, Format>, 3> kFormats = {
      {{"text", Format::text},
       {"json_object", Format::json_object},
       {"json_schema", Format::json_schema}}};
  switch (read_name(require_text(format, "type", where), kFormats, "response format", where)) {
    case Format::text:
      break;
    case Format::json_object:
      if (!mentions_json(request.messages)) {
        fail(where,
             "json_object needs the word 'json' in some message, which tells the model what to do");
      }
      request.is_json = true;
      return R"({"type": "json_object"})";
    case Format::json_schema: {
      const Json* outer = find_value(format, "json_schema");
      if (outer == nullptr || !outer->is_object()) {
        fail(where, str_cat("'json_schema' is ", outer == nullptr ? "missing" : kind_name(*outer),
                            ", expected an object with 'schema'"));
      }
      const Json* schema = outer->find("schema");
      if (schema == nullptr) {
        fail(where + ".json_schema", "'schema' is missing, expected a JSON schema");
      }
      check_schema(*schema, where + ".json_schema.schema");
      return io::dump_python(*schema);
    }
  }
  return {};
}

// Continuing an answer leaves no room for what begins one.
void check_continuation(const ChatRequest& request, std::string_view where) {
  const Message& last = request.messages.back();
  const bool has_calls =
      request.has_tools ||
      std::any_of(request.messages.begin(), request.messages.end(),
                  [](const Message& message) { return !message.tool_calls.empty(); });
  if (last.is_open && (has_calls || request.is_json)) {
    fail(where, str_cat("the last message is to be continued (prefix), which goes with ",
                        has_calls ? "neither tools nor tool calls" : "no json_object format",
                        "; leave out one or the other"));
  }
}

}  // namespace

bool is_chat_request(const Json& root) {
  constexpr std::array<std::string_view, 5> kKeys = {"model", "thinking", "tool_choice",
                                                     "response_format", "stream"};
  return root.find("messages") != nullptr &&
         std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view key) { return root.find(key) != nullptr; });
}

ChatRequest chat_request_from_json(const Json& body, std::string_view where, ImagePaths paths) {
  if (!body.is_object()) {
    fail(where, str_cat("expected a request, an object with messages, found ", kind_name(body)));
  }
  const Json* messages = body.find("messages");
  if (messages == nullptr) {
    fail(where, "'messages' is missing, expected a list of messages");
  }
  ChatRequest request;
  request.messages = chat_messages_from_json(*messages, str_cat(where, ".messages"), paths);
  read_reasoning(body, where, request);
  ChatTools tools = chat_tools_from_json(body, where);
  request.has_tools = !tools.schemas.empty();
  request.forces_calls = tools.is_forced;
  std::string format;
  if (const Json* value = find_value(body, "response_format")) {
    format = read_format(*value, str_cat(where, ".response_format"), request);
  }
  if (request.forces_calls && request.is_thinking == true) {
    fail(str_cat(where, ".tool_choice"),
         "a forced tool call leaves no room for thinking; send tool_choice auto, or thinking "
         "{\"type\":\"disabled\"}");
  }
  check_continuation(request, where);
  if ((request.has_tools || !format.empty()) && request.messages[0].role != Role::system) {
    request.messages.insert(request.messages.begin(), Message{})->role = Role::system;
  }
  if (request.has_tools || !format.empty()) {
    request.messages[0].tools = std::move(tools.schemas);
    request.messages[0].response_format = std::move(format);
  }
  return request;
}

ChatRequest parse_chat_request(std::string_view text, std::string_view where, ImagePaths paths) {
  std::optional<Json> body;
  try {
    body = io::parse_json(text, where);
  } catch (const Error& error) {
    // The body of a request is no file.
    const bool is_malformed = error.code() == ErrorCode::bad_file;
    throw Error(is_malformed ? ErrorCode::bad_request : error.code(), error.what());
  }
  return chat_request_from_json(*body, where, paths);
}

}  // namespace tessera::deepseek_v41
