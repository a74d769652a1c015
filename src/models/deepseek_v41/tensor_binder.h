// Whom bind_weights() asks for every tensor of a model: a checkpoint that is opened
// (checkpoint_binder.h), a list of what a checkpoint would hold (catalogue.h), a generator of
// values (synthetic.h). The walk over the model is written once, in weights.cc.
#pragma once

#include <cstdint>
#include <string>

#include "ops/engram/engram.h"
#include "ops/linear/linear.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tessera::deepseek_v41 {

// What a matrix is used for: decides how the release stores it, and whether its input is quantised
// as its format asks.
enum class MatrixUse {
  dense,          // router, compressor, tower, heads: bf16, input as it is
  projection,     // attention, shared experts, Engram: FP8, input by format
  output_groups,  // wo_a: stored like a projection, input as it is
  expert,         // routed experts: MXFP4, input by format
  draft_expert,   // those of the draft stages: the same, but other variants leave them alone
};

class TensorBinder {
 public:
  virtual ~TensorBinder() = default;

  // The bytes of one tensor, of any alignment; nullptr where there are none (a missing tensor, a
  // catalogue).
  virtual const std::byte* raw(const std::string& name, DType dtype, const Shape& shape) = 0;
  // NAME.weight with whatever belongs to its format.
  virtual Linear matrix(const std::string& name, int64_t outputs, int64_t inputs,
                        MatrixUse use) = 0;
  // NAME.weight [rows, width] with whatever belongs to its format.
  virtual EngramTable engram_table(const std::string& name, int64_t rows, int64_t width) = 0;
};

}  // namespace tessera::deepseek_v41
