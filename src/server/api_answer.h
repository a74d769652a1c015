// Results to the bodies of answers: chat.completion and text_completion objects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/json.h"
#include "runtime/engine.h"

namespace tessera::server {

// The bytes of a token: Engine::token_bytes.
using TokenBytes = std::function<std::string_view(int32_t id)>;

// What an answer says beside the result, whole or streamed.
struct AnswerForm {
  std::string request_id;   // ids of answers and of tool calls are made from it
  int64_t created = 0;      // seconds since 1970
  std::string model;        // as the server names it
  std::string fingerprint;  // system_fingerprint
  bool has_logprobs = false;
  bool includes_usage = false;  // streams: a last event with the usage
  std::string echo;             // text_completion: the prompt, put before every answer
  TokenBytes token_bytes;
};

io::Json chat_completion_json(const AnswerForm& form, const Result& result);
io::Json text_completion_json(const AnswerForm& form, const Result& result);

// The parts that streams have too.

// {"prompt_tokens":...,"completion_tokens":...,"total_tokens":..., details}
io::Json usage_json(const AnswerForm& form, const Result& result);
// {"content":[{"token","logprob","bytes","top_logprobs"}]}, an entry for each generated token;
// null if not asked for.
io::Json chat_logprobs_json(const AnswerForm& form, const Choice& choice);
// {"tokens","token_logprobs","top_logprobs","text_offset"}; null if not asked for. A token that is
// not UTF-8 by itself is named by its bytes: "bytes:\xe4\xbd".
io::Json text_logprobs_json(const AnswerForm& form, const Choice& choice);
// Of a chat: stop, length or tool_calls. What a deadline or the server cut short is "length": it is
// not complete.
std::string_view chat_finish_reason(const Choice& choice);
std::string_view text_finish_reason(const Choice& choice);
// "call_ID_CHOICE_CALL"
std::string call_id(const AnswerForm& form, int64_t choice, int64_t call);

// Tokens of an answer that are reasoning: those whose text reaches to its end.
int64_t reasoning_tokens(const AnswerForm& form, const Choice& choice);

}  // namespace tessera::server
