// A Chat Completions request body to a conversation and the options of its encoding: everything of
// it that decides the prompt. Chat specification sections 5, 7, 8, 12 and 15; reference:
// deepseek-recipe 0.2.0, whose checks these are (what differs: docs/prompts.md).
//
// Read: messages (chat_messages.h), tools, tool_choice, response_format, thinking,
// reasoning_effort. Ignored, for others to check: options of sampling and transport (max_tokens,
// stop, stream, model, ...) and members that are unknown.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "models/deepseek_v41/chat_content.h"
#include "tokenizer/conversation.h"

namespace tessera::deepseek_v41 {

struct ChatRequest {
  // Tools and response format stand on the first system message, which is put in front of the
  // messages if there is none.
  std::vector<Message> messages;
  // thinking, reasoning_effort; unset if the request says nothing (DeepSeek: thinking, effort 75).
  std::optional<bool> is_thinking;
  std::optional<int> effort;  // 1 to 100
  bool has_tools = false;     // in the prompt: the answer may have calls
  // tool_choice required or a function: PromptOptions::starts_calls, and the answer begins inside a
  // calls block.
  bool forces_calls = false;
  bool is_json = false;  // response_format json_object: the answer is JSON text
};

// Whether the JSON of an input file is a request body rather than a case (prompt_json.h): an object
// with messages and one of model, thinking, tool_choice, response_format, stream.
bool is_chat_request(const io::Json& root);

// `where` stands at the start of messages. Throws Error{bad_request} of one line that names the
// place, what was expected, what was found and what to do.
ChatRequest chat_request_from_json(const io::Json& body, std::string_view where, ImagePaths paths);

// The same from the text of a body. A key that appears twice in an object is an error (Python and
// deepseek-recipe keep the last); so are a lone surrogate and more than 128 levels. Throws
// Error{bad_request}.
ChatRequest parse_chat_request(std::string_view text, std::string_view where, ImagePaths paths);

}  // namespace tessera::deepseek_v41
