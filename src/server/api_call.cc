#include "server/api_call.h"

#include <algorithm>
#include <array>

#include "base/str_cat.h"
#include "base/text.h"
#include "server/api_error.h"

namespace tessera::server {
namespace {

using io::Json;

constexpr int64_t kMostTopK = int64_t{1} << 40;

// Of OpenAI, of vLLM and of other servers of this API.
constexpr auto kRefused = std::to_array<RefusedField>({
    {"service_tier", "there is one tier", {"\"auto\"", "\"default\""}},
    {"use_beam_search", "answers are sampled", {"false"}},
    {"length_penalty", "it belongs to beam search", {"1", "1.0"}},
    {"stop_token_ids", "send stop, a list of texts", {"[]"}},
    {"bad_words", "send logit_bias", {"[]"}},
    {"allowed_token_ids", "send logit_bias", {"[]"}},
    {"include_stop_str_in_output", "the text ends before the stop string", {"false"}},
    {"truncate_prompt_tokens", "shorten the prompt"},
    {"prompt_logprobs", "only the answer has log-probabilities"},
    {"return_tokens_as_token_ids", "", {"false"}},
    {"add_special_tokens", "the prompt is complete without", {"false"}},
    {"guided_json", "send response_format"},
    {"guided_regex", "answers are not constrained"},
    {"guided_choice", "answers are not constrained"},
    {"guided_grammar", "answers are not constrained"},
    {"structured_outputs", "send response_format"},
    {"logits_processors", "", {"[]"}},
    {"mm_processor_kwargs", "pictures have 'detail'", {"{}"}},
    {"priority", "requests are served in the order of their arrival", {"0"}},
    {"cache_salt", "what is kept belongs to the client's key alone"},
});

void read_stream(Fields& fields, CallOptions& options) {
  options.is_stream = fields.flag("stream").value_or(false);
  const Json* given = fields.find("stream_options");
  if (given == nullptr) {
    return;
  }
  if (!given->is_object()) {
    refuse_value("stream_options", *given, "an object");
  }
  if (!options.is_stream) {
    refuse("stream_options", "only a stream has them; send \"stream\": true, or leave it out");
  }
  Fields inner(*given, "stream_options.");
  options.includes_usage = inner.flag("include_usage").value_or(false);
  constexpr std::array<RefusedField, 1> kRefusedInner = {
      {{"continuous_usage_stats", "the last event has the usage", {"false"}}}};
  inner.refuse_all(kRefusedInner);
}

void read_lengths(Fields& fields, const ApiLimits& limits, Request& request) {
  const auto length = [&](std::string_view name) {
    return fields.integer(name, 1, limits.max_answer_tokens);
  };
  request.max_tokens = length("max_tokens");
  const std::optional<int64_t> newer = length("max_completion_tokens");
  if (newer && request.max_tokens.value_or(*newer) != *newer) {
    refuse("max_completion_tokens", str_cat("found ", *newer, ", but max_tokens is ",
                                            *request.max_tokens, "; send one of the two"));
  }
  if (newer) {
    request.max_tokens = newer;
  }
  const int64_t most = request.max_tokens.value_or(limits.max_answer_tokens);
  request.min_tokens = fields.integer("min_tokens", 0, most).value_or(0);
  request.ignores_eos = fields.flag("ignore_eos").value_or(false);
}

void read_stop(Fields& fields, Request& request) {
  const Json* given = fields.find("stop");
  if (given == nullptr) {
    return;
  }
  if (!given->is_string() && !given->is_array()) {
    refuse_value("stop", *given, "a string or a list of strings");
  }
  if (static_cast<int64_t>(given->items().size()) > kMaxStopStrings) {
    refuse("stop", str_cat("found ", given->items().size(), " strings, expected at most ",
                           kMaxStopStrings));
  }
  const auto add = [&](const Json& text, const std::string& path) {
    if (!text.is_string() || text.text().empty()) {
      refuse_value(path, text, "a string that is not empty");
    }
    request.stop.push_back(text.text());
  };
  if (given->is_string()) {
    return add(*given, "stop");
  }
  for (size_t i = 0; i < given->items().size(); ++i) {
    add(given->items()[i], str_cat("stop[", i, "]"));
  }
}

void read_seed(Fields& fields, Request& request, CallOptions& options) {
  const Json* given = fields.find("seed");
  if (given == nullptr) {
    return;
  }
  if (const std::optional<int64_t> seed = given->as_int64()) {
    request.sampling.seed = static_cast<uint64_t>(*seed);
  } else if (const std::optional<uint64_t> large = given->as_uint64()) {
    request.sampling.seed = *large;
  } else {
    refuse_value("seed", *given, "an integer of 64 bits");
  }
  options.has_seed = true;
}

void read_logit_bias(Fields& fields, const ApiLimits& limits, Request& request) {
  const Json* given = fields.find("logit_bias");
  if (given == nullptr) {
    return;
  }
  if (!given->is_object()) {
    refuse_value("logit_bias", *given, "an object of token ids and numbers");
  }
  if (static_cast<int64_t>(given->members().size()) > limits.max_logit_bias) {
    refuse("logit_bias", str_cat("found ", given->members().size(), " tokens, expected at most ",
                                 limits.max_logit_bias));
  }
  for (const auto& [key, value] : given->members()) {
    int32_t id = 0;
    // One spelling for each id, so that none comes twice.
    if (!parse_number(key, id) || id < 0 || str_cat(id) != key) {
      refuse("logit_bias", str_cat("found the key ", quoted(key, 40), ", expected a token id"));
    }
    request.sampling.logit_bias.emplace_back(
        id, number_of(value, str_cat("logit_bias.", key), -100, 100));
  }
}

void read_sampling(Fields& fields, const ApiLimits& limits, Request& request) {
  SamplingRequest& s = request.sampling;
  s.temperature = fields.number("temperature", 0, 2);
  s.top_p = fields.number("top_p", 0, 1);
  s.top_k = fields.integer("top_k", -1, kMostTopK);
  if (s.top_k == -1) {  // vLLM's spelling of "all"
    s.top_k = 0;
  }
  s.min_p = fields.number("min_p", 0, 1);
  s.repetition_penalty = fields.number("repetition_penalty", 0.01, 100);
  s.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  s.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  read_logit_bias(fields, limits, request);
}

// Fields that are right to send and change nothing here.
void check_labels(Fields& fields) {
  for (const std::string_view name :
       {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}) {
    fields.text(name);
  }
  const Json* metadata = fields.find("metadata");
  if (metadata != nullptr && !metadata->is_object()) {
    refuse_value("metadata", *metadata, "an object");
  }
}

}  // namespace

std::string read_model(Fields& fields, const ApiLimits& limits) {
  const std::optional<std::string> model = fields.text("model");
  if (model && !limits.models.empty() &&
      std::find(limits.models.begin(), limits.models.end(), *model) == limits.models.end()) {
    throw ApiError(ApiFault::unknown_model,
                   str_cat("model: no model ", quoted(*model, 40), " is served here, expected ",
                           limits.models.front()),
                   "model");
  }
  return model.value_or("");
}

void read_call(Fields& fields, const ApiLimits& limits, Request& request, CallOptions& options) {
  options.model = read_model(fields, limits);
  read_stream(fields, options);
  read_lengths(fields, limits, request);
  read_stop(fields, request);
  read_seed(fields, request, options);
  read_sampling(fields, limits, request);
  request.choices = fields.integer("n", 1, limits.max_choices).value_or(1);
  check_labels(fields);
  fields.refuse_all(kRefused);
}

}  // namespace tessera::server
