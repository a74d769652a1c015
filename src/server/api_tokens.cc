#include "server/api_tokens.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/str_cat.h"
#include "base/text.h"
#include "server/api_chat.h"
#include "server/api_completion.h"
#include "server/api_error.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

using io::Json;

constexpr auto kRefused = std::to_array<RefusedField>({
    {"add_special_tokens", "a prompt begins with the begin token, as in /v1/completions", {"true"}},
    {"add_generation_prompt", "the prompt is the one of a chat request", {"true"}},
    {"continue_final_message", "send \"prefix\": true in the last message", {"false"}},
    {"return_token_strs", "send the tokens to /detokenize", {"false"}},
    {"chat_template", "the model has one format"},
    {"chat_template_kwargs", "send thinking and reasoning_effort", {"{}"}},
});

}  // namespace

Json model_json(const ServedModel& model) {
  Json json = Json::object();
  json.set("id", Json::string(model.name));
  json.set("object", Json::string("model"));
  json.set("created", Json::number(model.created));
  json.set("owned_by", Json::string("tessera"));
  json.set("max_model_len", Json::number(model.context));
  return json;
}

Json models_json(const std::vector<ServedModel>& models) {
  Json data = Json::array();
  for (const ServedModel& model : models) {
    data.items().push_back(model_json(model));
  }
  return Json::object({{"object", Json::string("list")}, {"data", std::move(data)}});
}

Json model_named(const std::vector<ServedModel>& models, std::string_view name) {
  const auto model = std::find_if(models.begin(), models.end(),
                                  [&](const ServedModel& known) { return known.name == name; });
  if (model == models.end()) {
    throw ApiError(ApiFault::unknown_model,
                   str_cat("no model ", quoted(name, 40), " is served here; see /v1/models"),
                   "model");
  }
  return model_json(*model);
}

Request parse_tokenize_body(std::string_view body, const ApiLimits& limits) {
  const Json json = parse_body(body);
  Fields fields(json);
  read_model(fields, limits);
  fields.refuse_all(kRefused);
  const Json* prompt = fields.find("prompt");
  const bool has_messages = fields.find("messages") != nullptr;
  if ((prompt != nullptr) == has_messages) {
    refuse("prompt", has_messages ? "found beside messages; send one of the two"
                                  : "missing, expected a string (or messages)");
  }
  if (prompt != nullptr) {
    Request request;
    request.raw_prompt = one_prompt(*prompt);
    request.is_plain_text = true;
    return request;
  }
  return prompt_of_chat(json, limits);
}

Json tokenize_json(const std::vector<int32_t>& ids, int64_t context) {
  Json tokens = Json::array();
  for (const int32_t id : ids) {
    tokens.items().push_back(Json::number(int64_t{id}));
  }
  return Json::object({{"count", Json::number(static_cast<int64_t>(ids.size()))},
                       {"max_model_len", Json::number(context)},
                       {"tokens", std::move(tokens)}});
}

std::vector<int32_t> parse_detokenize_body(std::string_view body, const ApiLimits& limits,
                                           const TokenBytes& token_bytes) {
  const Json json = parse_body(body);
  Fields fields(json);
  read_model(fields, limits);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr) {
    refuse("tokens", "missing, expected a list of token ids");
  }
  if (!tokens->is_array()) {
    refuse_value("tokens", *tokens, "a list of token ids");
  }
  std::vector<int32_t> ids;
  for (const Json& item : tokens->items()) {
    const std::string path = str_cat("tokens[", ids.size(), "]");
    const int64_t id = integer_of(item, path, 0, std::numeric_limits<int32_t>::max());
    if (token_bytes(static_cast<int32_t>(id)).empty()) {
      refuse_value(path, item, "the id of a token");
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Json detokenize_json(const std::vector<int32_t>& ids, const TokenBytes& token_bytes) {
  std::string bytes;
  for (const int32_t id : ids) {
    bytes += token_bytes(id);
  }
  return Json::object({{"prompt", Json::string(readable_text(bytes))}});
}

}  // namespace tessera::server
