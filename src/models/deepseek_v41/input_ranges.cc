#include "models/deepseek_v41/input_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

struct ExpertMatrix {
  const char* name;
  Linear ExpertWeights::*layer;
};
constexpr std::array kMatrices = {ExpertMatrix{"w1", &ExpertWeights::w1},
                                  ExpertMatrix{"w3", &ExpertWeights::w3},
                                  ExpertMatrix{"w2", &ExpertWeights::w2}};

}  // namespace

InputRanges::InputRanges(const Weights& weights) : weights_(weights) {
  for (const LayerWeights& layer : weights.layers) {
    for (const ExpertWeights& expert : layer.ffn.experts) {
      for (const ExpertMatrix& matrix : kMatrices) {
        seen_[&(expert.*matrix.layer)] = 0;
      }
    }
  }
}

void InputRanges::see(const LinearCall& call) {
  const auto found = seen_.find(call.layer);
  if (found == seen_.end()) {
    return;
  }
  const int64_t count = call.rows * call.layer->weight.inputs;
  for (int64_t i = 0; i < count; ++i) {
    found->second = std::max(found->second, std::fabs(to_float(call.x[i])));
  }
}

std::map<std::string, float, std::less<>> InputRanges::largest() const {
  std::map<std::string, float, std::less<>> ranges;
  for (size_t l = 0; l < weights_.layers.size(); ++l) {
    const std::vector<ExpertWeights>& experts = weights_.layers[l].ffn.experts;
    for (const ExpertMatrix& matrix : kMatrices) {
      float largest = 0;
      for (const ExpertWeights& expert : experts) {
        largest = std::max(largest, seen_.at(&(expert.*matrix.layer)));
      }
      if (largest == 0) {
        throw Error(ErrorCode::bad_request, str_cat("no input of layer ", l,
                                                    "'s experts was seen; calibrate on more text"));
      }
      for (size_t e = 0; e < experts.size(); ++e) {
        const float own = seen_.at(&(experts[e].*matrix.layer));
        ranges[str_cat("layers.", l, ".ffn.experts.", e, ".", matrix.name)] =
            own > 0 ? own : largest;
      }
    }
  }
  return ranges;
}

}  // namespace tessera::deepseek_v41
