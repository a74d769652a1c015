#include "result_json.h"

#include <optional>
#include <utility>

#include "base/str_cat.h"

namespace tessera {
namespace {

using io::Json;

}  // namespace

Json calls_json(const std::vector<AnsweredCall>& calls) {
  Json list = Json::array();
  for (const AnsweredCall& call : calls) {
    Json function = Json::object();
    function.set("name", Json::string(call.name));
    function.set("arguments", Json::string(call.arguments));
    Json entry = Json::object();
    entry.set("type", Json::string("function"));
    if (!call.name_space.empty()) {
      entry.set("namespace", Json::string(call.name_space));
    }
    entry.set("function", std::move(function));
    list.items().push_back(std::move(entry));
  }
  return list;
}

namespace {

// A token that is not UTF-8 by itself is shown with replacement characters; its bytes are exact.
Json logprob_json(const Engine& engine, const TokenLogprob& token) {
  Json bytes = Json::array();
  for (const char c : engine.token_bytes(token.id)) {
    bytes.items().push_back(Json::number(int64_t{static_cast<unsigned char>(c)}));
  }
  Json json = Json::object();
  json.set("id", Json::number(int64_t{token.id}));
  json.set("token", Json::string(engine.decode({token.id})));
  json.set("bytes", std::move(bytes));
  json.set("logprob", Json::number(token.logprob));
  return json;
}

Json logprobs_json(const Engine& engine, const std::vector<ChosenToken>& tokens) {
  Json list = Json::array();
  for (const ChosenToken& chosen : tokens) {
    Json entry = logprob_json(engine, chosen.token);
    Json top = Json::array();
    for (const TokenLogprob& other : chosen.top) {
      top.items().push_back(logprob_json(engine, other));
    }
    entry.set("top", std::move(top));
    list.items().push_back(std::move(entry));
  }
  return list;
}

void set_choice(const Engine& engine, const Choice& choice, bool has_logprobs, Json& json) {
  json.set("content", Json::string(choice.answer.content));
  json.set("reasoning", Json::string(choice.answer.reasoning));
  json.set("tool_calls", calls_json(choice.answer.tool_calls));
  json.set("finish_reason", Json::string(std::string(finish_reason_name(choice.finish_reason))));
  if (!choice.stop_string.empty()) {
    json.set("stop", Json::string(choice.stop_string));
  }
  json.set("ids", json_numbers(choice.ids));
  if (has_logprobs) {
    json.set("logprobs", logprobs_json(engine, choice.logprobs));
  }
}

Json residency_json(const ResidencyStatistics& s) {
  Json json = Json::object();
  const std::pair<const char*, int64_t> numbers[] = {
      {"limit_bytes", s.limit_bytes},     {"resident_bytes", s.resident_bytes},
      {"peak_bytes", s.peak_bytes},       {"file_bytes", s.file_bytes},
      {"locked_bytes", s.locked_bytes},   {"used_bytes", s.used_bytes},
      {"missed_bytes", s.missed_bytes},   {"read_ahead_bytes", s.read_ahead_bytes},
      {"dropped_bytes", s.dropped_bytes}, {"dropped_ranges", s.dropped_ranges},
      {"major_faults", s.major_faults}};
  for (const auto& [name, value] : numbers) {
    json.set(name, Json::number(value));
  }
  json.set("is_over_limit", Json::boolean(s.is_over_limit));
  return json;
}

}  // namespace

Json result_json(const Engine& engine, const Request& request, const Result& result) {
  const bool has_logprobs = request.logprobs.has_value();
  Json timings = Json::object();
  timings.set("load_ms", Json::number(engine.load_ms()));
  timings.set("image_ms", Json::number(result.image_ms));
  timings.set("prefill_ms", Json::number(result.prefill_ms));
  timings.set("decode_ms", Json::number(result.decode_ms));
  Json json = Json::object();
  json.set("model", Json::string(engine.model_folder()));
  set_choice(engine, result.choices.front(), has_logprobs, json);
  json.set("prompt_tokens", Json::number(result.prompt_tokens));
  json.set("image_tokens", Json::number(result.image_tokens));
  json.set("span_tokens", json_numbers(result.span_tokens));
  json.set("cached_tokens", Json::number(result.cached_tokens));
  json.set("completion_tokens", Json::number(result.completion_tokens()));
  json.set("seed", Json::number_spelled(str_cat(result.seed)));
  json.set("timings", std::move(timings));
  if (const std::optional<ResidencyStatistics> residency = engine.residency_statistics()) {
    json.set("residency", residency_json(*residency));
  }
  if (result.choices.size() > 1) {
    Json choices = Json::array();
    for (const Choice& choice : result.choices) {
      set_choice(engine, choice, has_logprobs, choices.items().emplace_back(Json::object()));
    }
    json.set("choices", std::move(choices));
  }
  return json;
}

}  // namespace tessera
