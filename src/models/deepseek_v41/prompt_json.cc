#include "models/deepseek_v41/prompt_json.h"

#include <array>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"
#include "models/deepseek_v41/prompt_tools.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

// Anthropic: {"type":"base64","media_type","data"} or {"type":"url","url"}.
ImageSource read_source(const Json& source, const std::string& where) {
  if (!source.is_object()) {
    fail(where, str_cat("'source' is ", kind_name(source),
                        ", expected an object with type base64 or url"));
  }
  const std::string& type = require_text(source, "type", where);
  if (type == "base64") {
    return {ImageSource::Kind::base64, require_text(source, "data", where),
            optional_text(source, "media_type", where), ""};
  }
  if (type != "url") {
    fail(where, str_cat("image source of type ", quoted(type), ", expected base64 or url"));
  }
  return {ImageSource::Kind::url, require_text(source, "url", where), "", ""};
}

ImageSource read_image_url(const Json& block, const std::string& where) {
  const Json* value = find_value(block, "image_url");
  if (value != nullptr && value->is_object()) {
    return {ImageSource::Kind::url, require_text(*value, "url", where), "",
            optional_text(*value, "detail", where)};
  }
  return {ImageSource::Kind::url, require_text(block, "image_url", where), "", ""};
}

ImageSource read_image(const Json& block, const std::string& where) {
  for (const std::string_view key : {"url", "image"}) {
    if (find_value(block, key) != nullptr) {
      return {ImageSource::Kind::url, require_text(block, key, where), "",
              optional_text(block, "detail", where)};
    }
  }
  if (const Json* source = find_value(block, "source")) {
    return read_source(*source, where);
  }
  if (find_value(block, "data") != nullptr) {
    return {ImageSource::Kind::base64, require_text(block, "data", where),
            optional_text(block, "media_type", where), ""};
  }
  fail(where, "an image block needs one of 'url', 'image', 'source', 'data'");
}

ContentBlock text_block(std::string text) {
  ContentBlock block;
  block.text = std::move(text);
  return block;
}

ContentBlock image_block(ImageSource source) {
  ContentBlock block;
  block.kind = ContentBlock::Kind::image;
  block.image = std::move(source);
  return block;
}

enum class Nesting { message, user_message, tool_result };

std::vector<ContentBlock> read_content(const Json& content, const std::string& where,
                                       Nesting nesting);

ContentBlock read_block(const Json& block, const std::string& where, Nesting nesting) {
  if (!block.is_object()) {
    fail(where,
         str_cat("expected a content block, an object with a type, found ", kind_name(block)));
  }
  const std::string& type = require_text(block, "type", where);
  if (type == "text") {
    return text_block(require_text(block, "text", where));
  }
  if (type == "image_url") {
    return image_block(read_image_url(block, where));
  }
  if (type == "image") {
    return image_block(read_image(block, where));
  }
  if (type != "tool_result") {
    return text_block(str_cat("[Unsupported ", type, "]"));
  }
  if (nesting != Nesting::user_message) {
    fail(where, "a tool_result block can stand only in a user message");
  }
  ContentBlock result;
  result.kind = ContentBlock::Kind::tool_result;
  result.call_id = optional_text(block, "tool_use_id", where);
  if (const Json* content = find_value(block, "content")) {
    result.content = read_content(*content, str_cat(where, ".content"), Nesting::tool_result);
  }
  return result;
}

std::vector<ContentBlock> read_content(const Json& content, const std::string& where,
                                       Nesting nesting) {
  std::vector<ContentBlock> blocks;
  if (content.is_string()) {
    blocks.push_back(text_block(content.text()));
    return blocks;
  }
  if (!content.is_array()) {
    fail(where,
         str_cat("expected a string or a list of content blocks, found ", kind_name(content)));
  }
  for (size_t i = 0; i < content.items().size(); ++i) {
    blocks.push_back(read_block(content.items()[i], str_cat(where, "[", i, "]"), nesting));
  }
  return blocks;
}

Role read_role(const Json& message, const std::string& where) {
  return read_name(require_text(message, "role", where), kRoleNames, "role", where);
}

// Content that only one role can carry must not disappear in another.
void require_role(bool is_used, bool has_role, std::string_view key, std::string_view role,
                  const std::string& where) {
  if (is_used && !has_role) {
    fail(where, str_cat("'", key, "' belongs in a message of role ", role));
  }
}

void read_assistant_parts(const Json& json, const std::string& where, Message& message) {
  const bool is_assistant = message.role == Role::assistant;
  message.reasoning = optional_text(json, "reasoning_content", where);
  message.is_open = read_flag(json, "wo_eos", where) || read_flag(json, "prefix", where);
  if (const Json* calls = find_value(json, "tool_calls")) {
    message.tool_calls = tool_calls_from_json(*calls, str_cat(where, ".tool_calls"));
  }
  require_role(!message.reasoning.empty(), is_assistant, "reasoning_content", "assistant", where);
  require_role(message.is_open, is_assistant, "wo_eos", "assistant", where);
  require_role(!message.tool_calls.empty(), is_assistant, "tool_calls", "assistant", where);
}

Message read_message(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    fail(where,
         str_cat("expected a message, an object with role and content, found ", kind_name(json)));
  }
  Message message;
  message.role = read_role(json, where);
  for (const std::string_view key : {"function_call", "audio"}) {
    if (find_value(json, key) != nullptr) {
      fail(where, str_cat("'", key, "' is not supported; use tool_calls and content"));
    }
  }
  const bool is_user = message.role == Role::user;
  const Json* content = is_user ? find_value(json, "content_blocks") : nullptr;
  const std::string key = content == nullptr ? ".content" : ".content_blocks";
  content = content == nullptr ? find_value(json, "content") : content;
  if (content != nullptr) {
    message.content =
        read_content(*content, where + key, is_user ? Nesting::user_message : Nesting::message);
  } else if (message.role != Role::assistant) {
    fail(where, "'content' is missing, expected a string or a list of content blocks");
  }
  read_assistant_parts(json, where, message);
  message.call_id = optional_text(json, "tool_call_id", where);
  message.task = task_from_json(json, where);
  if (const Json* tools = find_value(json, "tools")) {
    message.tools = tools_from_json(*tools, str_cat(where, ".tools"));
  }
  if (const Json* format = find_value(json, "response_format")) {
    require_role(true, message.role == Role::system, "response_format", "system", where);
    message.response_format = io::dump_python(*format);
  }
  return message;
}

std::vector<ImageSource> read_image_list(const Json& list, const std::string& where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of image paths, found ", kind_name(list)));
  }
  std::vector<ImageSource> images;
  for (size_t i = 0; i < list.items().size(); ++i) {
    const Json& item = list.items()[i];
    const std::string item_where = str_cat(where, "[", i, "]");
    if (item.is_string()) {
      images.push_back({ImageSource::Kind::url, item.text(), "", ""});
    } else if (item.is_object()) {
      images.push_back(read_image(item, item_where));
    } else {
      fail(item_where, str_cat("expected an image path, found ", kind_name(item)));
    }
  }
  return images;
}

PromptCase read_case(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    fail(where,
         str_cat("expected a case, an object with messages or prompt, found ", kind_name(json)));
  }
  PromptCase result;
  result.name = optional_text(json, "name", where);
  if (const Json* messages = find_value(json, "messages")) {
    result.messages = messages_from_json(*messages, str_cat(where, ": messages"));
    if (result.messages.empty()) {
      fail(where, "messages: the list is empty, expected at least one message");
    }
    if (const Json* context = find_value(json, "context")) {
      result.context = messages_from_json(*context, str_cat(where, ": context"));
    }
    if (const Json* tools = find_value(json, "tools")) {
      attach_tools(*tools, str_cat(where, ": tools"),
                   result.context.empty() ? result.messages : result.context);
    }
  } else if (find_value(json, "prompt") != nullptr) {
    result.raw_prompt = require_text(json, "prompt", where);
    if (const Json* images = find_value(json, "images")) {
      result.raw_images = read_image_list(*images, str_cat(where, ": images"));
    }
  } else {
    fail(where, "the case has neither 'messages' nor 'prompt'");
  }
  if (find_value(json, "thinking_mode") != nullptr) {
    const std::string& mode = require_text(json, "thinking_mode", where);
    if (mode != "thinking" && mode != "chat") {
      fail(where, str_cat("thinking_mode is ", quoted(mode), ", expected thinking or chat"));
    }
    result.is_thinking = mode == "thinking";
  }
  if (const Json* effort = find_value(json, "reasoning_effort")) {
    result.effort = effort_from_json(*effort, where);
  }
  return result;
}

}  // namespace

std::optional<Task> task_from_json(const Json& message, std::string_view where) {
  constexpr std::array<std::pair<std::string_view, Task>, 6> kTasks = {
      {{"action", Task::action},
       {"query", Task::query},
       {"authority", Task::authority},
       {"domain", Task::domain},
       {"title", Task::title},
       {"read_url", Task::read_url}}};
  if (find_value(message, "task") == nullptr) {
    return std::nullopt;
  }
  return read_name(require_text(message, "task", where), kTasks, "task", where);
}

std::vector<Message> messages_from_json(const Json& list, std::string_view where) {
  if (!list.is_array()) {
    fail(where, str_cat("expected a list of messages, found ", kind_name(list)));
  }
  std::vector<Message> messages;
  for (size_t i = 0; i < list.items().size(); ++i) {
    messages.push_back(read_message(list.items()[i], str_cat(where, "[", i, "]")));
  }
  return messages;
}

std::optional<int> parse_effort(std::string_view text) {
  int effort = 0;
  if (text == "low") {
    return 50;
  }
  if (text == "high") {
    return 75;
  }
  if (text == "max") {
    return 100;
  }
  if (parse_number(text, effort) && effort >= 1 && effort <= 100) {
    return effort;
  }
  return std::nullopt;
}

int effort_from_json(const Json& value, std::string_view where) {
  std::optional<int> effort;
  // A digit string is no effort: the reference takes integers only.
  const bool is_name = value.is_string() && !value.text().empty() && value.text()[0] >= 'a';
  if (value.is_integer() || is_name) {
    effort = parse_effort(value.text());
  }
  if (!effort) {
    fail(where, str_cat("reasoning_effort is ", shown_json(value),
                        ", expected an integer from 1 to 100, \"low\", \"high\" or \"max\""));
  }
  return *effort;
}

void attach_tools(const Json& tools, std::string_view where, std::vector<Message>& messages) {
  std::vector<std::string> schemas = tools_from_json(tools, where);
  if (schemas.empty()) {
    return;
  }
  if (messages.empty() || messages[0].role != Role::system) {
    Message system;
    system.role = Role::system;
    messages.insert(messages.begin(), std::move(system));
  }
  if (!messages[0].tools.empty()) {
    fail(where, "the first system message has tools of its own; give them in one place");
  }
  messages[0].tools = std::move(schemas);
}

std::vector<PromptCase> cases_from_json(const Json& root, std::string_view where) {
  std::vector<PromptCase> cases;
  if (!root.is_array()) {
    cases.push_back(read_case(root, std::string(where)));
    return cases;
  }
  const std::vector<Json>& items = root.items();
  if (items.empty()) {
    fail(where, "the list is empty, expected messages or cases");
  }
  if (items[0].is_object() && items[0].find("role") != nullptr) {
    cases.emplace_back().messages = messages_from_json(root, str_cat(where, ": messages"));
    return cases;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    cases.push_back(read_case(items[i], str_cat(where, ": case ", i)));
  }
  return cases;
}

std::vector<ContentBlock> parse_tagged_text(std::string_view text) {
  constexpr std::string_view kOpen = "<image>";
  constexpr std::string_view kClose = "</image>";
  std::vector<ContentBlock> blocks;
  const auto add_text = [&](std::string_view piece) {
    if (piece.find(kOpen) != std::string_view::npos ||
        piece.find(kClose) != std::string_view::npos) {
      throw Error(ErrorCode::bad_request,
                  "Malformed <image>path</image> tag; each <image> needs a path and one </image>");
    }
    if (!piece.empty()) {
      blocks.push_back(text_block(std::string(piece)));
    }
  };
  while (true) {
    const size_t open = text.find(kOpen);
    const size_t close =
        text.find(kClose, open == std::string_view::npos ? open : open + kOpen.size());
    if (close == std::string_view::npos) {
      break;
    }
    add_text(text.substr(0, open));
    const std::string_view path = text.substr(open + kOpen.size(), close - open - kOpen.size());
    if (path.empty()) {
      throw Error(ErrorCode::bad_request,
                  "Image path must not be empty; write <image>path</image>");
    }
    blocks.push_back(image_block({ImageSource::Kind::url, std::string(path), "", ""}));
    text.remove_prefix(close + kClose.size());
  }
  add_text(text);
  if (blocks.empty()) {
    blocks.push_back(text_block(""));
  }
  return blocks;
}

}  // namespace tessera::deepseek_v41
