// The largest magnitudes of what goes into the routed experts, for NVFP4's calibrated activations.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/deepseek_v41/weights.h"
#include "ops/linear/linear.h"

namespace tessera::deepseek_v41 {

class InputRanges : public LinearObserver {
 public:
  // The weights outlive this.
  explicit InputRanges(const Weights& weights);

  void see(const LinearCall& call) override;

  // By name of the matrix ("layers.0.ffn.experts.3.w1"), of all experts of the backbone. An expert
  // that was never picked gets the largest value of its layer. Throws Error{bad_request} when a
  // layer saw nothing.
  std::map<std::string, float, std::less<>> largest() const;

 private:
  const Weights& weights_;
  std::unordered_map<const Linear*, float> seen_;
};

}  // namespace tessera::deepseek_v41
