// How the values of a matrix lie in a checkpoint: which tensors there are, of which types and
// shapes. Model-independent: names of the tensors are NAME plus the suffixes below.
// Source: checkpoint_v41 specification 4, 9, 10.1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tessera {

// A tensor without its values.
struct TensorSpec {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;

  int64_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
};

enum class StoredFormat {
  bf16,      // .weight BF16 [o, i]
  f16,       // .weight F16 [o, i]
  f32,       // .weight F32 [o, i]
  fp8_e8m0,  // .weight F8_E4M3 [o, i], .scale F8_E8M0, one per tile of block x block
  fp8_f32,   // .weight F8_E4M3 [o, i], .weight_scale_inv F32, one per tile of block x block
  mxfp4,     // .weight I8 [o, i/2], .scale F8_E8M0 [o, i/32]
  nvfp4,     // .weight U8 [o, i/2], .weight_scale F8_E4M3 [o, i/16], .weight_scale_2 and
             // .input_scale F32 scalars
};

// `block` is the side of an FP8 tile, meaningless for the other formats.
struct MatrixFormat {
  StoredFormat format = StoredFormat::bf16;
  int64_t block = 32;

  friend bool operator==(const MatrixFormat& a, const MatrixFormat& b) {
    const bool has_block = a.format == StoredFormat::fp8_e8m0 || a.format == StoredFormat::fp8_f32;
    return a.format == b.format && (!has_block || a.block == b.block);
  }
};

// "bf16", "fp8 32x32", "fp8 128x128 f32", "mxfp4", "nvfp4"
std::string format_text(const MatrixFormat& format);

// The tensors of the matrix NAME [outputs, inputs], the weight first.
std::vector<TensorSpec> stored_tensors(const MatrixFormat& format, const std::string& name,
                                       int64_t outputs, int64_t inputs);

}  // namespace tessera
