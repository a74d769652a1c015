#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  double sum = 0;
  for (const float x : logits) {
    sum += exp_or_zero(static_cast<double>(x) - largest);
  }
  return static_cast<double>(logits[static_cast<size_t>(id)]) - largest - std::log(sum);
}

int32_t Sampler::sample(std::span<const float> logits, const SamplingOptions& options,
                        uint64_t sequence, uint64_t position) {
  if (options.temperature <= 0) {
    return argmax(logits);
  }
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  const double temperature = std::max(options.temperature, 1e-5);
  const double largest = logits[static_cast<size_t>(order_.front())];
  weights_.resize(logits.size());
  double total = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    const double x = logits[static_cast<size_t>(order_[i])];
    weights_[i] = exp_or_zero((x - largest) / temperature);
    total += weights_[i];
  }
  double kept = 0;
  size_t count = 0;
  while (count < weights_.size() && (count == 0 || kept < options.top_p * total) &&
         weights_[count] > 0) {
    kept += weights_[count++];
  }
  double target = counter_uniform(options.seed, sequence, position) * kept;
  for (size_t i = 0; i < count; ++i) {
    target -= weights_[i];
    if (target < 0) {
      return order_[i];
    }
  }
  return order_[count - 1];
}

}  // namespace tessera
