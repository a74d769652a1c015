#include "server/api_stream.h"

#include "base/check.h"
#include "base/str_cat.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

using io::Json;

// [{"index":CALL, ...}]
Json call_json(const AnswerForm& form, int64_t choice, const AnswerDelta& delta) {
  Json entry = Json::object({{"index", Json::number(delta.call)}});
  if (delta.kind == AnswerDelta::Kind::call_name) {
    Answer named;
    append(delta, named);
    const AnsweredCall& call = named.tool_calls.front();
    entry.set("id", Json::string(call_id(form, choice, delta.call)));
    entry.set("type", Json::string("function"));
    if (!call.name_space.empty()) {
      entry.set("namespace", Json::string(call.name_space));
    }
    entry.set("function",
              Json::object({{"name", Json::string(call.name)}, {"arguments", Json::string("")}}));
  } else {
    entry.set("function", Json::object({{"arguments", Json::string(delta.text)}}));
  }
  return Json::array({std::move(entry)});
}

}  // namespace

AnswerStream::AnswerStream(Kind kind, AnswerForm form, int64_t choices)
    : kind_(kind), form_(std::move(form)), is_open_(static_cast<size_t>(choices), false) {}

std::string AnswerStream::event(const RequestEvent& event) {
  if (event.kind != RequestEvent::Kind::delta) {
    return {};
  }
  return kind_ == Kind::chat ? chat_event(event) : text_event(event);
}

std::string AnswerStream::chat_event(const RequestEvent& event) {
  const AnswerDelta& delta = event.delta;
  Json value = Json::object();
  switch (delta.kind) {
    case AnswerDelta::Kind::reasoning:
      value.set("reasoning_content", Json::string(delta.text));
      break;
    case AnswerDelta::Kind::content:
      value.set("content", Json::string(delta.text));
      break;
    case AnswerDelta::Kind::call_name:
    case AnswerDelta::Kind::call_arguments:
      value.set("tool_calls", call_json(form_, event.choice, delta));
  }
  return opening(event.choice) + delta_chunk(event.choice, std::move(value));
}

std::string AnswerStream::text_event(const RequestEvent& event) {
  const AnswerDelta& delta = event.delta;
  if (delta.kind != AnswerDelta::Kind::reasoning && delta.kind != AnswerDelta::Kind::content) {
    return {};
  }
  return opening(event.choice) + delta_chunk(event.choice, Json::string(delta.text));
}

std::string AnswerStream::end(const Result& result) {
  std::string text;
  for (size_t i = 0; i < result.choices.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    const Choice& choice = result.choices[i];
    text += opening(index);
    text += kind_ == Kind::chat
                ? chunk(index, "delta", Json::object(), chat_logprobs_json(form_, choice),
                        chat_finish_reason(choice))
                : chunk(index, "text", Json::string(""), text_logprobs_json(form_, choice),
                        text_finish_reason(choice));
  }
  if (form_.includes_usage) {
    Json last = chunk_json(Json::array());
    last.set("usage", usage_json(form_, result));
    text += sse_event(last);
  }
  text += kSseDone;
  return text;
}

std::string AnswerStream::fail(const ApiError& error) const {
  return str_cat("data: ", error_body(error), "\n\n", kSseDone);
}

std::string AnswerStream::opening(int64_t index) {
  const size_t choice = static_cast<size_t>(index);
  TESSERA_CHECK(choice < is_open_.size());
  if (is_open_[choice]) {
    return {};
  }
  is_open_[choice] = true;
  if (kind_ == Kind::chat) {
    return delta_chunk(
        index, Json::object({{"role", Json::string("assistant")}, {"content", Json::string("")}}));
  }
  return form_.echo.empty() ? std::string() : delta_chunk(index, Json::string(form_.echo));
}

std::string AnswerStream::delta_chunk(int64_t index, Json value) const {
  return chunk(index, kind_ == Kind::chat ? "delta" : "text", std::move(value), {}, {});
}

std::string AnswerStream::chunk(int64_t index, std::string_view key, Json value, Json logprobs,
                                std::string_view finish_reason) const {
  Json choice = Json::object({{"index", Json::number(index)}});
  choice.set(std::string(key), std::move(value));
  choice.set("logprobs", std::move(logprobs));
  choice.set("finish_reason",
             finish_reason.empty() ? Json() : Json::string(std::string(finish_reason)));
  return sse_event(chunk_json(Json::array({std::move(choice)})));
}

Json AnswerStream::chunk_json(Json choices) const {
  const bool is_chat = kind_ == Kind::chat;
  Json json = Json::object();
  json.set("id", Json::string(str_cat(is_chat ? "chatcmpl-" : "cmpl-", form_.request_id)));
  json.set("object", Json::string(is_chat ? "chat.completion.chunk" : "text_completion"));
  json.set("created", Json::number(form_.created));
  json.set("model", Json::string(form_.model));
  json.set("system_fingerprint", Json::string(form_.fingerprint));
  json.set("choices", std::move(choices));
  if (form_.includes_usage) {
    json.set("usage", Json());  // the last event has it
  }
  return json;
}

}  // namespace tessera::server
