// Looks tensors up by name, checks them, and remembers every finding for one message at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "io/safetensors.h"
#include "ops/linear/linear.h"

namespace tessera::deepseek_v41 {

class TensorBinder {
 public:
  TensorBinder(const io::Checkpoint& checkpoint, int64_t fp8_block)
      : checkpoint_(checkpoint), fp8_block_(fp8_block) {}

  // The tensor's bytes; nullptr (and a finding) if it is missing or differs.
  const std::byte* raw(const std::string& name, DType dtype, const Shape& shape);

  // NAME.weight bf16 [outputs, inputs], with NAME.bias bf16 where asked for.
  Linear dense(const std::string& name, int64_t outputs, int64_t inputs, bool has_bias = false);
  // NAME.weight E4M3 + NAME.scale E8M0 per tile.
  Linear fp8(const std::string& name, int64_t outputs, int64_t inputs, InputRule input);
  // NAME.weight I8 with two E2M1 codes per byte + NAME.scale E8M0 per 32 inputs.
  Linear fp4(const std::string& name, int64_t outputs, int64_t inputs, InputRule input);

  // Throws when there was a finding, or a tensor of the checkpoint that nobody asked for.
  void finish() const;

 private:
  void finding(std::string text);

  const io::Checkpoint& checkpoint_;
  int64_t fp8_block_;
  std::unordered_set<std::string> bound_;
  std::vector<std::string> findings_;
};

}  // namespace tessera::deepseek_v41
