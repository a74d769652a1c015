// What a checkpoint says about the formats of its matrices: quantization_config of config.json, and
// ModelOpt's hf_quant_config.json. A loader trusts the tensors; what is declared must agree with
// them. Source: checkpoint_v41 specification 3, 9, 10.1; ModelOpt's export of unified checkpoints.
#pragma once

#include <optional>
#include <string>

#include "io/config_view.h"
#include "models/stored_format.h"

namespace tessera {

// Nothing: not declared, the tensors decide.
struct Quantization {
  std::optional<MatrixFormat> projections;  // attention, shared experts, Engram projections
  std::optional<MatrixFormat> experts;
  std::optional<MatrixFormat> draft_experts;
  std::optional<StoredFormat> engram_tables;  // fp8_e8m0, mxfp4 or bf16
};

// `v` is the object quantization_config. Throws Error{unsupported} for a method or an algorithm
// that this engine does not know and Error{bad_file} for values that contradict each other.
Quantization read_quantization(const io::ConfigView& v);

// Compares hf_quant_config.json, if there is one in `folder`, with what config.json declares, and
// fills in what that leaves open. Throws Error{bad_file} with both facts where they differ.
void read_hf_quant_config(const std::string& folder, Quantization& quantization);

}  // namespace tessera
