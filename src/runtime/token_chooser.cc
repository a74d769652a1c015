#include "runtime/token_chooser.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

SamplingOptions sampling_options(const SamplingRequest& request,
                                 const GenerationDefaults& defaults) {
  return {.temperature = request.temperature.value_or(defaults.temperature),
          .top_k = request.top_k.value_or(defaults.top_k),
          .top_p = request.top_p.value_or(defaults.top_p),
          .min_p = request.min_p.value_or(0),
          .repetition_penalty = request.repetition_penalty.value_or(defaults.repetition_penalty),
          .presence_penalty = request.presence_penalty,
          .frequency_penalty = request.frequency_penalty,
          .logit_bias = request.logit_bias,
          .seed = request.seed};
}

}  // namespace

TokenChooser::TokenChooser(const PromptContext& context, const Request& request)
    : context_(context),
      request_(request),
      options_(sampling_options(request.sampling, context.defaults)) {}

void TokenChooser::check_logits(std::span<const float> logits, int64_t position) {
  for (const float x : logits) {
    if (std::isnan(x)) {
      throw Error(ErrorCode::bad_file,
                  str_cat("the model computed NaN at position ", position - 1,
                          "; its weights are damaged (check the files against their checksums)"));
    }
  }
}

TokenCounts TokenChooser::counts_of(std::span<const int32_t> prompt) const {
  TokenCounts counts;
  if (options_.has_penalties()) {
    counts.add_prompt(prompt);
  }
  return counts;
}

int32_t TokenChooser::choose(std::span<float> logits, int64_t position, int64_t index,
                             uint64_t draw, TokenCounts& counts, Choice& choice) {
  const deepseek_v41::Config& config = context_.model.network.config;
  check_logits(logits, position);
  std::vector<float> raw;  // for the log-probability of what is chosen
  ChosenToken chosen;
  if (request_.logprobs.has_value()) {
    raw.assign(logits.begin(), logits.end());
    chosen.top = top_logprobs(logits, *request_.logprobs);
  }
  adjust_logits(logits, options_, counts);
  // The image token is never chosen: re-encoded, it would count as a placeholder.
  if (!context_.options.samples_image_token && config.image_token >= 0) {
    logits[static_cast<size_t>(config.image_token)] = kNever;
  }
  if (static_cast<int64_t>(choice.ids.size()) < request_.min_tokens) {
    logits[static_cast<size_t>(config.eos_token)] = kNever;
  }
  const int32_t token = sampler_.sample(logits, options_, static_cast<uint64_t>(index), draw);
  if (options_.has_penalties()) {
    counts.add_answer(token);
  }
  choice.ids.push_back(token);
  if (request_.logprobs.has_value()) {
    chosen.token = {token, log_probability(raw, token)};
    choice.logprobs.push_back(std::move(chosen));
  }
  return token;
}

}  // namespace tessera
