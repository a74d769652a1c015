// From logits to a token id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit, first index on ties
  int64_t top_k = 0;         // only the k most likely tokens; 0: all
  double top_p = 1.0;        // smallest set of most likely tokens whose mass reaches top_p
  double min_p = 0.0;        // only tokens at least min_p times as likely as the most likely one
  double repetition_penalty = 1.0;  // > 0; logits of tokens in prompt or answer: / if > 0, * if < 0
  double presence_penalty = 0.0;    // subtracted from the logits of tokens in the answer
  double frequency_penalty = 0.0;   // the same, times how often the token stands there
  std::vector<std::pair<int32_t, double>> logit_bias = {};  // added to the logits of these tokens
  uint64_t seed = 0;

  // Whether tokens of the prompt and the answer have to be counted.
  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// Uniform in [0, 1) with 53 bits: a function of (seed, sequence, position) alone, so that a seed
// gives one text whatever runs beside it. SplitMix64 (Steele, Lea and Flood 2014) over the three
// numbers.
double counter_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

// The tokens of one sequence, as penalties count them.
class TokenCounts {
 public:
  void add_prompt(std::span<const int32_t> ids);
  void add_answer(int32_t id);

 private:
  friend void adjust_logits(std::span<float> logits, const SamplingOptions& options,
                            const TokenCounts& counts);
  std::unordered_map<int32_t, int64_t> answer_;  // id -> times in the answer; prompt ids with 0
};

// logits[id] += bias, then the penalties: repetition (Keskar et al. 2019, section 4.1), then
// presence and frequency as the OpenAI API defines them. Ids outside `logits` are ignored.
void adjust_logits(std::span<float> logits, const SamplingOptions& options,
                   const TokenCounts& counts);

// Keeps its work memory between calls.
class Sampler {
 public:
  // Token for `logits` [vocab], already adjusted; logits of -inf are never chosen. `position`:
  // draws made before. p = softmax(logits / max(temperature, 1e-5)) in double, tokens ordered by
  // logit, then id. Kept are, one rule after the other: tokens with p >= min_p * max p, of these
  // the first top_k, of these the fewest first ones whose share of the kept mass reaches top_p (at
  // least one).
  int32_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t sequence,
                 uint64_t position);

 private:
  struct Candidate {
    float logit;
    int32_t id;
    double weight;  // p / max p
  };
  // Puts the first `count` candidates in order, the others behind them.
  void order(size_t count);

  std::vector<Candidate> candidates_;
  size_t ordered_ = 0;
};

// Index of the largest value, the first one on ties.
int32_t argmax(std::span<const float> logits);

// log softmax(logits)[id], in double.
double log_probability(std::span<const float> logits, int32_t id);

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
};

// The `count` most likely tokens, most likely first, smaller id on ties, with the logarithms of
// their probabilities in softmax(logits).
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int64_t count);

}  // namespace tessera
