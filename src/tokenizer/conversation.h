// A conversation as callers give it, before any model's template: OpenAI-style messages with text,
// pictures, tool calls and results.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

enum class Role { system, user, assistant, tool, latest_reminder };
// Their names in messages, in the order of the enumerators.
constexpr std::array<std::pair<std::string_view, Role>, 5> kRoleNames = {
    {{"system", Role::system},
     {"user", Role::user},
     {"assistant", Role::assistant},
     {"tool", Role::tool},
     {"latest_reminder", Role::latest_reminder}}};

// Quick-instruction tasks.
enum class Task { action, query, authority, domain, title, read_url };

// Where an image comes from; nothing is opened here.
struct ImageSource {
  enum class Kind {
    url,     // http(s) URL, data: URL or path
    base64,  // the file's bytes, in base64
  };
  Kind kind = Kind::url;
  std::string value;
  std::string media_type;  // as declared with base64, or empty
  std::string detail;      // low, high, original, auto, or empty
};

struct ContentBlock {
  enum class Kind { text, image, tool_result };
  Kind kind = Kind::text;
  std::string text;
  ImageSource image;
  std::string call_id;                // tool_result: the call it answers
  std::vector<ContentBlock> content;  // tool_result: texts and images
};

struct ToolArgument {
  std::string name;
  std::string value;  // the string itself, or JSON as Python's json.dumps writes it
  bool is_string = true;
};

struct ToolCall {
  std::string id;
  std::string name;  // "namespace::name" if it has a namespace
  std::vector<ToolArgument> arguments;
};

struct Message {
  Role role = Role::user;
  // A string is one text block. tool_result blocks: only in user messages.
  std::vector<ContentBlock> content;
  std::string reasoning;             // assistant, without tags
  std::vector<ToolCall> tool_calls;  // assistant
  std::string call_id;               // tool: the call it answers
  // One JSON object per tool. Written only in system messages; in any message they keep old
  // reasoning from being dropped.
  std::vector<std::string> tools;
  std::string response_format;  // system: JSON, or empty
  std::optional<Task> task;
  bool is_open = false;  // assistant: no end-of-sentence token, generation continues it (wo_eos)
};

// Whose rules the turns of a prompt follow.
enum class EncodingRevision {
  ref,       // DeepSeek's reference encoder
  ref_1017,  // its later revision: turns of tool results alone do not count as the last user turn
  // deepseek-recipe, DeepSeek's serving library: every assistant turn, also the one that generation
  // writes, has a header of its own, also behind a reminder or another assistant turn; a turn to
  // continue that has no content leaves its reasoning open; system messages that hold nothing are
  // dropped.
  recipe,
};

}  // namespace tessera
