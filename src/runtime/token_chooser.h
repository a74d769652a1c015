// The next token of an answer: log-probabilities, bias, penalties, what may not be chosen,
// sampling. Internal to the runtime.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/prepared_prompt.h"
#include "runtime/sampler.h"

namespace tessera {

class TokenChooser {
 public:
  // Both outlive the chooser.
  TokenChooser(const PromptContext& context, const Request& request);

  // Chooses from the logits behind `position` tokens, adds the token to `choice` and counts it.
  // `index`: the number of the answer; `draw`: draws made for it before. Changes the logits. Throws
  // Error{bad_file} for logits that are not numbers: damaged weights end here, not in an endless
  // answer of token 0.
  int32_t choose(std::span<float> logits, int64_t position, int64_t index, uint64_t draw,
                 TokenCounts& counts, Choice& choice);

  // What the penalties count before an answer; nothing without penalties.
  TokenCounts counts_of(std::span<const int32_t> prompt) const;

  static void check_logits(std::span<const float> logits, int64_t position);

 private:
  const PromptContext& context_;
  const Request& request_;
  SamplingOptions options_;
  Sampler sampler_;
};

}  // namespace tessera
