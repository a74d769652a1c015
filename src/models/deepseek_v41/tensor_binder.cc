#include "models/deepseek_v41/tensor_binder.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {
constexpr size_t kMostFindings = 20;  // spelled out in the message
}

void TensorBinder::finding(std::string text) { findings_.push_back(std::move(text)); }

const std::byte* TensorBinder::raw(const std::string& name, DType dtype, const Shape& shape) {
  const io::TensorEntry* entry = checkpoint_.find(name);
  if (entry == nullptr) {
    finding(
        str_cat(name, " is missing (expected ", dtype_name(dtype), " ", shape_text(shape), ")"));
    return nullptr;
  }
  bound_.insert(name);
  if (entry->dtype != dtype || entry->shape != shape) {
    finding(str_cat(name, " is ", dtype_name(entry->dtype), " ", shape_text(entry->shape),
                    ", expected ", dtype_name(dtype), " ", shape_text(shape)));
    return nullptr;
  }
  return checkpoint_.view(name).data;
}

Linear TensorBinder::dense(const std::string& name, int64_t outputs, int64_t inputs,
                           bool has_bias) {
  Linear layer;
  layer.weight = {WeightBf16{raw(name + ".weight", DType::bf16, {outputs, inputs})}, outputs,
                  inputs};
  if (has_bias) {
    layer.bias = raw(name + ".bias", DType::bf16, {outputs});
  }
  return layer;
}

Linear TensorBinder::fp8(const std::string& name, int64_t outputs, int64_t inputs,
                         InputRule input) {
  const Shape tiles = {ceil_div(outputs, fp8_block_), ceil_div(inputs, fp8_block_)};
  Linear layer;
  layer.weight = {WeightFp8Block{raw(name + ".weight", DType::f8_e4m3, {outputs, inputs}),
                                 raw(name + ".scale", DType::f8_e8m0, tiles), fp8_block_},
                  outputs, inputs};
  layer.input = input;
  return layer;
}

Linear TensorBinder::fp4(const std::string& name, int64_t outputs, int64_t inputs,
                         InputRule input) {
  Linear layer;
  layer.weight = {WeightMxfp4{raw(name + ".weight", DType::i8, {outputs, inputs / 2}),
                              raw(name + ".scale", DType::f8_e8m0, {outputs, inputs / 32})},
                  outputs, inputs};
  layer.input = input;
  return layer;
}

void TensorBinder::finish() const {
  std::vector<std::string> all = findings_;
  for (const std::string_view name : checkpoint_.names()) {
    if (bound_.count(std::string(name)) == 0) {
      all.push_back(str_cat(name, " is not known to this model"));
    }
  }
  if (all.empty()) {
    return;
  }
  std::string message = str_cat(checkpoint_.folder(), ": ", all.size(),
                                " tensors do not fit config.json; wrong config.json? ");
  for (size_t i = 0; i < std::min(all.size(), kMostFindings); ++i) {
    message += (i == 0 ? "" : "; ") + all[i];
  }
  if (all.size() > kMostFindings) {
    message += str_cat("; and ", all.size() - kMostFindings, " more");
  }
  throw Error(ErrorCode::bad_file, message);
}

}  // namespace tessera::deepseek_v41
