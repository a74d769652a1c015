// Binds the tensors of an opened checkpoint, each by what it is: the format of a matrix follows
// from the types and shapes of its tensors. What config.json declares must agree with that.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/safetensors.h"
#include "models/deepseek_v41/weights.h"
#include "models/quantization.h"
#include "models/stored_format.h"

namespace tessera::deepseek_v41 {

// How the inputs of NVFP4 matrices are quantised.
enum class Nvfp4Activations {
  calibrated,  // to E2M1 by the checkpoint's input scales (W4A4), as NVIDIA's kernels do
  e4m3,        // like those of the release's experts; input scales are not read
};

class CheckpointBinder : public TensorBinder {
 public:
  // Both outlive the binder.
  CheckpointBinder(const io::Checkpoint& checkpoint, const Quantization& quantization,
                   Nvfp4Activations activations)
      : checkpoint_(checkpoint), quantization_(quantization), activations_(activations) {}

  const std::byte* raw(const std::string& name, DType dtype, const Shape& shape) override;
  Linear matrix(const std::string& name, int64_t outputs, int64_t inputs, MatrixUse use) override;
  EngramTable engram_table(const std::string& name, int64_t rows, int64_t width) override;

  // Throws Error{bad_file} that lists every finding, each with its tensor and file, when there was
  // one, or a tensor of the checkpoint that nobody asked for.
  void finish() const;

  // NAME.weight and what there is of its scales; empty without the weight.
  std::vector<TensorSpec> tensors_of(const std::string& name) const;

  // "bf16", "f32", "fp8 32x32", "fp8 1x32" (Engram rows), "mxfp4", "nvfp4": the format of the
  // matrix that a bound tensor belongs to.
  std::string_view format_of(std::string_view tensor) const { return bound_.at(tensor); }

 private:
  // One tensor beside a weight that may hold its scales.
  struct Scale {
    std::string suffix;
    const io::TensorEntry* entry;
  };
  using Scales = std::vector<Scale>;

  Scales scales_of(const std::string& name);
  // Each sets what it binds in `layer`; nothing for a finding.
  std::optional<MatrixFormat> bind_plain(const io::TensorEntry& weight, const Scales& scales,
                                         Linear& layer);
  std::optional<MatrixFormat> bind_fp8(const std::string& name, const io::TensorEntry& weight,
                                       const Scales& scales, std::optional<MatrixFormat> declared,
                                       Linear& layer);
  std::optional<MatrixFormat> bind_mxfp4(const io::TensorEntry& weight, const Scale& scale,
                                         Linear& layer);
  std::optional<MatrixFormat> bind_nvfp4(const std::string& name, const io::TensorEntry& weight,
                                         const Scales& scales, bool wants_input_scale,
                                         Linear& layer);
  std::optional<float> scalar(const std::string& name, const Scales& scales,
                              std::string_view suffix, std::string_view what);

  bool has_shape(const io::TensorEntry& entry, DType dtype, const Shape& shape);
  const std::byte* data(const io::TensorEntry& entry) const;
  std::string described(const io::TensorEntry& entry) const;  // "NAME in FILE is BF16 [2,3]"
  void bind(const io::TensorEntry& entry, std::string_view format);
  void finding(std::string text);

  const io::Checkpoint& checkpoint_;
  const Quantization& quantization_;
  Nvfp4Activations activations_;
  std::unordered_map<std::string_view, std::string_view> bound_;  // tensor -> format
  std::set<std::string, std::less<>> formats_;                    // owns the names of formats
  std::vector<std::string> findings_;
};

// Binds every tensor that `config` calls for. A missing, mis-shaped or mis-typed tensor, one that
// no rule knows and one that contradicts config.quantization end in one Error{bad_file} that lists
// all of them. The checkpoint outlives the weights.
Weights bind_weights(const io::Checkpoint& checkpoint, const Config& config,
                     Nvfp4Activations activations = Nvfp4Activations::calibrated);

}  // namespace tessera::deepseek_v41
