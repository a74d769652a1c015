#include "server/api_completion.h"

#include <array>

#include "base/str_cat.h"
#include "server/api_error.h"

namespace tessera::server {
namespace {

using io::Json;

constexpr auto kRefused = std::to_array<RefusedField>({
    {"suffix", "the model does not fill gaps", {"\"\""}},
    {"response_format", "send the chat endpoint", {"{\"type\":\"text\"}"}},
    {"messages", "send /v1/chat/completions"},
    {"tools", "send /v1/chat/completions", {"[]"}},
    {"prompt_embeds", ""},
});

void check_best_of(Fields& fields, const ApiLimits& limits, const Request& request) {
  const std::optional<int64_t> best_of = fields.integer("best_of", 1, limits.max_choices);
  if (best_of && *best_of != request.choices) {
    refuse("best_of", str_cat("found ", *best_of, ", but n is ", request.choices,
                              "; every answer is returned, so they must be equal"));
  }
}

}  // namespace

std::string one_prompt(const Json& value) {
  const Json* text = &value;
  if (value.is_array()) {
    if (!value.items().empty() && !value.items().front().is_string()) {
      refuse("prompt", "lists of token ids are not supported; send the text");
    }
    if (value.items().size() != 1) {
      refuse("prompt", str_cat("found ", value.items().size(),
                               " prompts, expected one; send one request for each"));
    }
    text = &value.items().front();
  }
  if (!text->is_string() || text->text().empty()) {
    refuse_value("prompt", *text, "a string that is not empty");
  }
  return text->text();
}

CompletionCall parse_completion_body(std::string_view body, const ApiLimits& limits) {
  const Json json = parse_body(body);
  Fields fields(json);
  fields.refuse_all(kRefused);
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    refuse("prompt", "missing, expected a string");
  }
  CompletionCall call;
  call.request.raw_prompt = one_prompt(*prompt);
  call.request.is_plain_text = true;
  read_call(fields, limits, call.request, call.options);
  check_best_of(fields, limits, call.request);
  call.request.logprobs = fields.integer("logprobs", 0, kMaxTopLogprobs);
  call.echoes_prompt = fields.flag("echo").value_or(false);
  if (call.echoes_prompt && call.request.logprobs.has_value()) {
    refuse("echo", "does not go with logprobs: the prompt has none; leave out one of them");
  }
  call.options.ignored_fields = fields.unknown();
  return call;
}

}  // namespace tessera::server
