// Messages from JSON (OpenAI-style, Anthropic-style image and tool_result blocks, Hugging Face
// image parts), case files, and text with image tags. Chat specification sections 5 and 8.
//
// Every function throws Error{bad_request} naming the place (`where` + path), what was found and
// what was expected. Keys that carry no content (name, index, ...) are ignored; content that cannot
// be written is an error, except for blocks of an unknown type, which become the text
// "[Unsupported TYPE]" as in the reference.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "models/deepseek_v41/prompt.h"

namespace tessera::deepseek_v41 {

std::vector<Message> messages_from_json(const io::Json& list, std::string_view where);

// The member `task` of a message.
std::optional<Task> task_from_json(const io::Json& message, std::string_view where);

// 1 to 100, "low" (50), "high" (75) or "max" (100).
int effort_from_json(const io::Json& value, std::string_view where);
// The same from a command line; nothing for any other text.
std::optional<int> parse_effort(std::string_view text);

// `tools` of a request, on the first system message; an empty one is put in front if there is none
// at index 0 (as deepseek-recipe does; without it the tools would not be written).
void attach_tools(const io::Json& tools, std::string_view where, std::vector<Message>& messages);

// One conversation of a case file.
struct PromptCase {
  std::string name;  // empty if it has none
  std::vector<Message> messages;
  std::vector<Message> context;
  std::optional<std::string> raw_prompt;  // instead of messages
  std::vector<ImageSource> raw_images;    // of raw_prompt
  std::optional<bool> is_thinking;
  std::optional<int> effort;
};

// A bare message list, one case, or a list of cases. Keys of a case: messages, or prompt and images
// when it has no messages; tools, context, thinking_mode ("thinking" or "chat"), reasoning_effort,
// name. Other keys are ignored.
std::vector<PromptCase> cases_from_json(const io::Json& root, std::string_view where);

// Text in which <image>PATH</image> marks pictures (the shortest match; may span lines): blocks
// with the text between as it is, or one text block if there is no tag.
std::vector<ContentBlock> parse_tagged_text(std::string_view text);

}  // namespace tessera::deepseek_v41
