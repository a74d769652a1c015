#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/scalar_math.h"

namespace tessera {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// e^x for x <= 0; 0 below 1e-300, and for the -inf of a token that may not be chosen.
double exp_or_zero(double x) { return x < -690 ? 0.0 : exp_double(x); }

// log of the sum of e^logit, as (largest logit, log of the rest).
double log_sum(std::span<const float> logits, double largest) {
  double sum = 0;
  for (const float x : logits) {
    sum += exp_or_zero(static_cast<double>(x) - largest);
  }
  return std::log(sum);
}

constexpr size_t kFirstOrdered = 64;  // candidates put in order at once; then 8 times as many

}  // namespace

double counter_uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  const uint64_t bits = mix(mix(mix(seed) ^ sequence) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double log_probability(std::span<const float> logits, int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  return static_cast<double>(logits[static_cast<size_t>(id)]) - largest - log_sum(logits, largest);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i);
  }
  const size_t kept = std::min(ids.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
                    [&](int32_t a, int32_t b) {
                      const float x = logits[static_cast<size_t>(a)];
                      const float y = logits[static_cast<size_t>(b)];
                      return x > y || (x == y && a < b);
                    });
  std::vector<TokenLogprob> top;
  if (kept == 0) {
    return top;
  }
  const double largest = logits[static_cast<size_t>(ids.front())];
  const double rest = log_sum(logits, largest);
  for (size_t i = 0; i < kept; ++i) {
    top.push_back(
        {ids[i], static_cast<double>(logits[static_cast<size_t>(ids[i])]) - largest - rest});
  }
  return top;
}

void TokenCounts::add_prompt(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    answer_.try_emplace(id, 0);
  }
}

void TokenCounts::add_answer(int32_t id) { ++answer_[id]; }

void adjust_logits(std::span<float> logits, const SamplingOptions& o, const TokenCounts& counts) {
  const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); };
  for (const auto& [id, bias] : o.logit_bias) {
    if (known(id)) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = static_cast<float>(logit + bias);
    }
  }
  if (!o.has_penalties()) {
    return;
  }
  for (const auto& [id, count] : counts.answer_) {
    if (!known(id)) {
      continue;
    }
    double logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    if (count > 0) {
      logit -= o.presence_penalty + o.frequency_penalty * static_cast<double>(count);
    }
    logits[static_cast<size_t>(id)] = static_cast<float>(logit);
  }
}

void Sampler::order(size_t count) {
  if (count <= ordered_) {
    return;
  }
  const auto is_before = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  };
  const auto at = [&](size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (count < candidates_.size()) {
    std::nth_element(at(ordered_), at(count), candidates_.end(), is_before);
  }
  std::sort(at(ordered_), at(count), is_before);
  ordered_ = count;
}

int32_t Sampler::sample(std::span<const float> logits, const SamplingOptions& options,
                        uint64_t sequence, uint64_t position) {
  const int32_t best = argmax(logits);
  if (options.temperature <= 0) {
    return best;
  }
  const double temperature = std::max(options.temperature, 1e-5);
  const double largest = logits[static_cast<size_t>(best)];
  candidates_.clear();
  ordered_ = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double w = exp_or_zero((static_cast<double>(logits[i]) - largest) / temperature);
    if (w > 0 && w >= options.min_p) {  // the most likely token has weight 1
      candidates_.push_back({logits[i], static_cast<int32_t>(i), w});
    }
  }
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < candidates_.size()) {
    order(static_cast<size_t>(options.top_k));
    candidates_.resize(static_cast<size_t>(options.top_k));
  }
  double kept = 0;  // mass of the first `count` candidates
  for (const Candidate& c : candidates_) {
    kept += c.weight;
  }
  size_t count = candidates_.size();
  if (options.top_p < 1) {
    const double wanted = options.top_p * kept;
    kept = 0;
    for (count = 0; count < candidates_.size() && (count == 0 || kept < wanted); ++count) {
      if (count == ordered_) {
        order(std::min(candidates_.size(), std::max(kFirstOrdered, 8 * ordered_)));
      }
      kept += candidates_[count].weight;
    }
  }
  double target = counter_uniform(options.seed, sequence, position) * kept;
  for (size_t i = 0; i < count; ++i) {
    target -= candidates_[i].weight;
    if (target < 0) {
      return candidates_[i].id;
    }
  }
  return candidates_[count - 1].id;
}

}  // namespace tessera
