#include "server/api_answer.h"

#include <algorithm>

#include "base/str_cat.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

using io::Json;

// The API has no number for probability 0; OpenAI writes this one.
constexpr double kLeastLogprob = -9999.0;

Json text_json(std::string_view text) { return Json::string(std::string(text)); }

Json logprob_number(double logprob) { return Json::number(std::max(logprob, kLeastLogprob)); }

Json chat_token_json(const AnswerForm& form, const TokenLogprob& token) {
  const std::string_view bytes = form.token_bytes(token.id);
  Json list = Json::array();
  for (const char c : bytes) {
    list.items().push_back(Json::number(int64_t{static_cast<unsigned char>(c)}));
  }
  return Json::object({{"token", Json::string(readable_text(bytes))},
                       {"logprob", logprob_number(token.logprob)},
                       {"bytes", std::move(list)}});
}

// The name of a token where there are no bytes beside it.
std::string token_name(std::string_view bytes) {
  std::string text = readable_text(bytes);
  if (text == bytes) {
    return text;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  text = "bytes:";
  for (const char c : bytes) {
    const unsigned byte = static_cast<unsigned char>(c);
    text.append("\\x").append({kDigits[byte >> 4], kDigits[byte & 15U]});
  }
  return text;
}

int64_t code_points(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
}

Json message_json(const AnswerForm& form, const Result& result, int64_t index) {
  const Answer& answer = result.choices[static_cast<size_t>(index)].answer;
  Json message = Json::object({{"role", Json::string("assistant")}});
  const bool is_calls_only = answer.content.empty() && !answer.tool_calls.empty();
  message.set("content", is_calls_only ? Json() : Json::string(answer.content));
  if (result.is_thinking || !answer.reasoning.empty()) {
    message.set("reasoning_content", Json::string(answer.reasoning));
  }
  Json calls = Json::array();
  for (const AnsweredCall& call : answer.tool_calls) {
    Json entry = Json::object();
    entry.set("id", Json::string(call_id(form, index, static_cast<int64_t>(calls.items().size()))));
    entry.set("type", Json::string("function"));
    if (!call.name_space.empty()) {
      entry.set("namespace", Json::string(call.name_space));
    }
    entry.set("function", Json::object({{"name", Json::string(call.name)},
                                        {"arguments", Json::string(call.arguments)}}));
    calls.items().push_back(std::move(entry));
  }
  if (!answer.tool_calls.empty()) {
    message.set("tool_calls", std::move(calls));
  }
  return message;
}

// An object of the API around its choices.
Json answer_json(const AnswerForm& form, std::string_view id_prefix, std::string_view object,
                 Json choices, const Result& result) {
  Json json = Json::object();
  json.set("id", Json::string(str_cat(id_prefix, form.request_id)));
  json.set("object", text_json(object));
  json.set("created", Json::number(form.created));
  json.set("model", Json::string(form.model));
  json.set("choices", std::move(choices));
  json.set("usage", usage_json(form, result));
  json.set("system_fingerprint", Json::string(form.fingerprint));
  return json;
}

}  // namespace

Json chat_completion_json(const AnswerForm& form, const Result& result) {
  Json choices = Json::array();
  for (size_t i = 0; i < result.choices.size(); ++i) {
    const Choice& choice = result.choices[i];
    Json entry = Json::object();
    entry.set("index", Json::number(static_cast<int64_t>(i)));
    entry.set("message", message_json(form, result, static_cast<int64_t>(i)));
    entry.set("logprobs", chat_logprobs_json(form, choice));
    entry.set("finish_reason", text_json(chat_finish_reason(choice)));
    choices.items().push_back(std::move(entry));
  }
  return answer_json(form, "chatcmpl-", "chat.completion", std::move(choices), result);
}

Json text_completion_json(const AnswerForm& form, const Result& result) {
  Json choices = Json::array();
  for (size_t i = 0; i < result.choices.size(); ++i) {
    const Choice& choice = result.choices[i];
    Json entry = Json::object();
    entry.set("index", Json::number(static_cast<int64_t>(i)));
    entry.set("text",
              Json::string(str_cat(form.echo, choice.answer.reasoning, choice.answer.content)));
    entry.set("logprobs", text_logprobs_json(form, choice));
    entry.set("finish_reason", text_json(text_finish_reason(choice)));
    choices.items().push_back(std::move(entry));
  }
  return answer_json(form, "cmpl-", "text_completion", std::move(choices), result);
}

Json usage_json(const AnswerForm& form, const Result& result) {
  int64_t reasoning = 0;
  for (const Choice& choice : result.choices) {
    reasoning += reasoning_tokens(form, choice);
  }
  const int64_t completion = result.completion_tokens();
  Json usage = Json::object();
  usage.set("prompt_tokens", Json::number(result.prompt_tokens));
  usage.set("completion_tokens", Json::number(completion));
  usage.set("total_tokens", Json::number(result.prompt_tokens + completion));
  usage.set("prompt_tokens_details",
            Json::object({{"cached_tokens", Json::number(result.cached_tokens)},
                          {"image_tokens", Json::number(result.image_tokens)}}));
  usage.set("completion_tokens_details",
            Json::object({{"reasoning_tokens", Json::number(reasoning)}}));
  return usage;
}

Json chat_logprobs_json(const AnswerForm& form, const Choice& choice) {
  if (!form.has_logprobs) {
    return {};
  }
  Json list = Json::array();
  for (const ChosenToken& chosen : choice.logprobs) {
    Json top = Json::array();
    for (const TokenLogprob& other : chosen.top) {
      top.items().push_back(chat_token_json(form, other));
    }
    Json entry = chat_token_json(form, chosen.token);
    entry.set("top_logprobs", std::move(top));
    list.items().push_back(std::move(entry));
  }
  return Json::object({{"content", std::move(list)}});
}

Json text_logprobs_json(const AnswerForm& form, const Choice& choice) {
  if (!form.has_logprobs) {
    return {};
  }
  Json tokens = Json::array();
  Json numbers = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  int64_t offset = 0;
  for (const ChosenToken& chosen : choice.logprobs) {
    const std::string_view bytes = form.token_bytes(chosen.token.id);
    tokens.items().push_back(Json::string(token_name(bytes)));
    numbers.items().push_back(logprob_number(chosen.token.logprob));
    Json top = Json::object();
    for (const TokenLogprob& other : chosen.top) {
      top.set(token_name(form.token_bytes(other.id)), logprob_number(other.logprob));
    }
    tops.items().push_back(std::move(top));
    offsets.items().push_back(Json::number(offset));
    offset += code_points(bytes);
  }
  return Json::object({{"tokens", std::move(tokens)},
                       {"token_logprobs", std::move(numbers)},
                       {"top_logprobs", std::move(tops)},
                       {"text_offset", std::move(offsets)}});
}

std::string_view chat_finish_reason(const Choice& choice) {
  return choice.finish_reason == FinishReason::cancelled ? finish_reason_name(FinishReason::length)
                                                         : finish_reason_name(choice.finish_reason);
}

std::string_view text_finish_reason(const Choice& choice) {
  return choice.finish_reason == FinishReason::tool_calls ? finish_reason_name(FinishReason::stop)
                                                          : chat_finish_reason(choice);
}

std::string call_id(const AnswerForm& form, int64_t choice, int64_t call) {
  return str_cat("call_", form.request_id, "_", choice, "_", call);
}

int64_t reasoning_tokens(const AnswerForm& form, const Choice& choice) {
  const std::string& reasoning = choice.answer.reasoning;
  const size_t begin = choice.text.find(reasoning);  // newlines before it are dropped
  if (reasoning.empty() || begin == std::string::npos) {
    return 0;
  }
  size_t bytes = 0;
  int64_t tokens = 0;
  for (const int32_t id : choice.ids) {
    if (bytes >= begin + reasoning.size()) {
      break;
    }
    bytes += form.token_bytes(id).size();
    ++tokens;
  }
  return tokens;
}

}  // namespace tessera::server
