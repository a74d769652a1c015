// What a checkpoint holds, from its config.json alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/tensor_binder.h"
#include "models/stored_format.h"

namespace tessera::deepseek_v41 {

// Every tensor of the model, in the order in which bind_weights() asks for them, stored as
// config.quantization declares (the release's formats where it declares nothing).
std::vector<TensorSpec> tensor_catalogue(const Config& config);

// How the release stores a matrix, and how config.json says that this checkpoint does.
MatrixFormat released_format(MatrixUse use);
std::optional<MatrixFormat> declared_format(const Quantization& quantization, MatrixUse use);

// The rule for the input of a matrix of a format; that of NVFP4 is the calibrated one.
InputRule input_rule(StoredFormat format, MatrixUse use);

EngramTable::Format table_format(StoredFormat format);

// The tensors of an Engram table: NAME.weight and, but for bf16, NAME.scale, one E8M0 per 32
// columns.
std::vector<TensorSpec> engram_tensors(StoredFormat format, const std::string& name, int64_t rows,
                                       int64_t width);

// The part of the model that a tensor belongs to; one of component_names().
std::string_view component_of(std::string_view tensor);

// All components, in the order in which a request meets them.
std::vector<std::string_view> component_names();

}  // namespace tessera::deepseek_v41
