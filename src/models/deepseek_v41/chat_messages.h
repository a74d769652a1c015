// The messages of a Chat Completions request, with the checks of deepseek-recipe 0.2.0. The reader
// of case files, which takes all that the reference encoder takes, is prompt_json.h.
#pragma once

#include <string_view>
#include <vector>

#include "io/json.h"
#include "models/deepseek_v41/chat_content.h"
#include "tokenizer/conversation.h"

namespace tessera::deepseek_v41 {

// At least one message; roles system, user, assistant, tool, latest_reminder.
// - An assistant message has content (a string, maybe empty, or a list of texts) or tool_calls (not
//   an empty list; ids differ). Behind tool_calls comes exactly one tool message for each call, in
//   any order, and tool messages come nowhere else.
// - Only the last message can be marked as one to continue (prefix, or the reference's wo_eos).
// - Pictures: system, user and tool messages.
// Extension: the reference's `task`. Other members are ignored, as are members of another role.
// Throws Error{bad_request} naming message, part and rule.
std::vector<Message> chat_messages_from_json(const io::Json& list, std::string_view where,
                                             ImagePaths paths);

}  // namespace tessera::deepseek_v41
