#include "server/api_chat.h"

#include <array>

#include "base/error.h"
#include "server/api_error.h"

namespace tessera::server {
namespace {

using io::Json;

// What request_of_chat_body() reads.
constexpr std::array<std::string_view, 6> kPromptFields = {
    "messages", "tools", "tool_choice", "response_format", "thinking", "reasoning_effort"};

constexpr auto kRefused = std::to_array<RefusedField>({
    {"functions", "send tools", {"[]"}},
    {"function_call", "send tool_choice", {"\"none\"", "\"auto\""}},
    {"parallel_tool_calls", "the model decides how many calls it makes", {"true"}},
    {"audio", "answers are text"},
    {"modalities", "answers are text", {"[\"text\"]"}},
    {"prediction", ""},
    {"web_search_options", "there is no search; send a tool"},
    {"store", "nothing is stored", {"false"}},
    {"verbosity", "say it in a message", {"\"medium\""}},
    {"best_of", "send n", {"1"}},
    {"echo", "", {"false"}},
    {"suffix", ""},
    {"continue_final_message", "send \"prefix\": true in the last message", {"false"}},
    {"add_generation_prompt", "send \"prefix\": true in the last message to continue it", {"true"}},
    {"chat_template", "the model has one format"},
    {"chat_template_kwargs", "send thinking and reasoning_effort", {"{}"}},
    {"documents", "send them as messages", {"[]"}},
});

void read_logprobs(Fields& fields, Request& request) {
  const bool has_logprobs = fields.flag("logprobs").value_or(false);
  const int64_t top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (top > 0 && !has_logprobs) {
    refuse("top_logprobs", "needs logprobs; send \"logprobs\": true too");
  }
  if (has_logprobs) {
    request.logprobs = top;
  }
}

}  // namespace

ChatCall parse_chat_body(std::string_view body, const ApiLimits& limits) {
  const Json json = parse_body(body);
  Fields fields(json);
  fields.know(kPromptFields);
  fields.refuse_all(kRefused);
  ChatCall call;
  call.request = prompt_of_chat(json, limits);
  read_call(fields, limits, call.request, call.options);
  read_logprobs(fields, call.request);
  call.options.ignored_fields = fields.unknown();
  return call;
}

Request prompt_of_chat(const Json& body, const ApiLimits& limits) {
  try {
    return request_of_chat_body(body, "request", limits.picture_paths);
  } catch (const Error& error) {
    throw api_error_of(error, {.stage = "prompt"});
  }
}

}  // namespace tessera::server
