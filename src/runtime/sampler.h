// From logits to a token id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tessera {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit, first index on ties
  double top_p = 1.0;        // smallest set of most likely tokens whose mass reaches top_p
  uint64_t seed = 0;
};

// Uniform in [0, 1) with 53 bits: a function of (seed, sequence, position) alone, so that a seed
// gives one text whatever runs beside it. SplitMix64 (Steele, Lea and Flood 2014) over the three
// numbers.
double counter_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

// Keeps its work memory between calls.
class Sampler {
 public:
  // Token for `logits` [vocab]; logits of -inf are never chosen. `position`: draws made before.
  // Probabilities: softmax(logits / max(temperature, 1e-5)) in double, tokens ordered by logit,
  // then id.
  int32_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t sequence,
                 uint64_t position);

 private:
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

// Index of the largest value, the first one on ties.
int32_t argmax(std::span<const float> logits);

// log softmax(logits)[id], in double.
double log_probability(std::span<const float> logits, int32_t id);

}  // namespace tessera
