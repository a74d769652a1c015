#include "models/stored_format.h"

#include "base/checked_math.h"
#include "base/str_cat.h"

namespace tessera {

std::string format_text(const MatrixFormat& format) {
  switch (format.format) {
    case StoredFormat::bf16:
      return "bf16";
    case StoredFormat::f16:
      return "f16";
    case StoredFormat::f32:
      return "f32";
    case StoredFormat::fp8_e8m0:
      return str_cat("fp8 ", format.block, "x", format.block);
    case StoredFormat::fp8_f32:
      return str_cat("fp8 ", format.block, "x", format.block, " f32");
    case StoredFormat::mxfp4:
      return "mxfp4";
    case StoredFormat::nvfp4:
      return "nvfp4";
  }
  return "?";
}

std::vector<TensorSpec> stored_tensors(const MatrixFormat& format, const std::string& name,
                                       int64_t outputs, int64_t inputs) {
  const std::string weight = name + ".weight";
  const Shape tiles = {ceil_div(outputs, format.block), ceil_div(inputs, format.block)};
  switch (format.format) {
    case StoredFormat::bf16:
      return {{weight, DType::bf16, {outputs, inputs}}};
    case StoredFormat::f16:
      return {{weight, DType::f16, {outputs, inputs}}};
    case StoredFormat::f32:
      return {{weight, DType::f32, {outputs, inputs}}};
    case StoredFormat::fp8_e8m0:
      return {{weight, DType::f8_e4m3, {outputs, inputs}},
              {name + ".scale", DType::f8_e8m0, tiles}};
    case StoredFormat::fp8_f32:
      return {{weight, DType::f8_e4m3, {outputs, inputs}},
              {name + ".weight_scale_inv", DType::f32, tiles}};
    case StoredFormat::mxfp4:
      return {{weight, DType::i8, {outputs, inputs / 2}},
              {name + ".scale", DType::f8_e8m0, {outputs, inputs / 32}}};
    case StoredFormat::nvfp4:
      return {{weight, DType::u8, {outputs, inputs / 2}},
              {name + ".weight_scale", DType::f8_e4m3, {outputs, inputs / 16}},
              {name + ".weight_scale_2", DType::f32, {}},
              {name + ".input_scale", DType::f32, {}}};
  }
  return {};
}

}  // namespace tessera
