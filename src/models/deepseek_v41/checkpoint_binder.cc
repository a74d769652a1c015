#include "models/deepseek_v41/checkpoint_binder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/catalogue.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr size_t kMostFindings = 20;  // spelled out in the message
constexpr int64_t kTileSizes[] = {32, 64, 128, 256};
constexpr std::array kScaleSuffixes = {".scale", ".weight_scale", ".weight_scale_inv",
                                       ".weight_scale_2", ".input_scale"};

std::string type_and_shape(DType dtype, const Shape& shape) {
  return str_cat(dtype_name(dtype), " ", shape_text(shape));
}

Shape tiles_of(const Linear& layer, int64_t block) {
  return {ceil_div(layer.weight.outputs, block), ceil_div(layer.weight.inputs, block)};
}

}  // namespace

void CheckpointBinder::finding(std::string text) { findings_.push_back(std::move(text)); }

const std::byte* CheckpointBinder::data(const io::TensorEntry& entry) const {
  return checkpoint_.view(entry.name).data;
}

std::string CheckpointBinder::described(const io::TensorEntry& entry) const {
  return str_cat(entry.name, " in ", checkpoint_.file_name(entry.name), " is ",
                 type_and_shape(entry.dtype, entry.shape));
}

void CheckpointBinder::bind(const io::TensorEntry& entry, std::string_view format) {
  bound_[entry.name] = *formats_.emplace(format).first;
}

bool CheckpointBinder::has_shape(const io::TensorEntry& entry, DType dtype, const Shape& shape) {
  if (entry.dtype == dtype && entry.shape == shape) {
    return true;
  }
  finding(str_cat(described(entry), ", expected ", type_and_shape(dtype, shape)));
  return false;
}

const std::byte* CheckpointBinder::raw(const std::string& name, DType dtype, const Shape& shape) {
  const io::TensorEntry* entry = checkpoint_.find(name);
  if (entry == nullptr) {
    finding(str_cat(name, " is missing (expected ", type_and_shape(dtype, shape), ")"));
    return nullptr;
  }
  bind(*entry, dtype == DType::f32 ? "f32" : "bf16");
  return has_shape(*entry, dtype, shape) ? data(*entry) : nullptr;
}

CheckpointBinder::Scales CheckpointBinder::scales_of(const std::string& name) {
  Scales scales;
  for (const char* suffix : kScaleSuffixes) {
    if (const io::TensorEntry* entry = checkpoint_.find(name + suffix)) {
      bind(*entry, "");
      scales.push_back({suffix, entry});
    }
  }
  return scales;
}

std::vector<TensorSpec> CheckpointBinder::tensors_of(const std::string& name) const {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const std::string& tensor) {
    if (const io::TensorEntry* entry = checkpoint_.find(tensor)) {
      tensors.push_back({tensor, entry->dtype, entry->shape});
    }
  };
  add(name + ".weight");
  for (const char* suffix : kScaleSuffixes) {
    if (!tensors.empty()) {
      add(name + suffix);
    }
  }
  return tensors;
}

std::optional<MatrixFormat> CheckpointBinder::bind_plain(const io::TensorEntry& weight,
                                                         const Scales& scales, Linear& layer) {
  if (!scales.empty()) {
    finding(str_cat(described(weight), ", which has no scales, but there is ",
                    scales.front().entry->name));
    return std::nullopt;
  }
  if (!has_shape(weight, weight.dtype, {layer.weight.outputs, layer.weight.inputs})) {
    return std::nullopt;
  }
  switch (weight.dtype) {
    case DType::bf16:
      layer.weight.format = WeightBf16{data(weight)};
      return MatrixFormat{StoredFormat::bf16};
    case DType::f16:
      layer.weight.format = WeightF16{data(weight)};
      return MatrixFormat{StoredFormat::f16};
    default:
      layer.weight.format = WeightF32{data(weight)};
      return MatrixFormat{StoredFormat::f32};
  }
}

std::optional<MatrixFormat> CheckpointBinder::bind_fp8(const std::string& name,
                                                       const io::TensorEntry& weight,
                                                       const Scales& scales,
                                                       std::optional<MatrixFormat> declared,
                                                       Linear& layer) {
  const bool is_fp8 = declared.has_value() && (declared->format == StoredFormat::fp8_e8m0 ||
                                               declared->format == StoredFormat::fp8_f32);
  const int64_t expected = is_fp8 ? declared->block : kTileSizes[0];
  if (!has_shape(weight, DType::f8_e4m3, {layer.weight.outputs, layer.weight.inputs})) {
    return std::nullopt;
  }
  if (scales.size() != 1) {
    finding(str_cat(described(weight), scales.empty() ? " without a scale" : " with two scales",
                    ", expected ", name, ".scale, ",
                    type_and_shape(DType::f8_e8m0, tiles_of(layer, expected))));
    return std::nullopt;
  }
  const io::TensorEntry& scale = *scales.front().entry;
  const bool is_e8m0 = scale.dtype == DType::f8_e8m0;
  if (!is_e8m0 && scale.dtype != DType::f32 && scale.dtype != DType::bf16) {
    has_shape(scale, DType::f8_e8m0, tiles_of(layer, expected));
    return std::nullopt;
  }
  const auto fits = [&](int64_t block) { return scale.shape == tiles_of(layer, block); };
  const int64_t* found = std::find_if(std::begin(kTileSizes), std::end(kTileSizes), fits);
  const int64_t block = is_fp8                          ? declared->block
                        : found != std::end(kTileSizes) ? *found
                                                        : expected;
  if (!has_shape(scale, scale.dtype, tiles_of(layer, block))) {
    return std::nullopt;
  }
  if (is_e8m0) {
    layer.weight.format = WeightFp8Block{data(weight), data(scale), block};
    return MatrixFormat{StoredFormat::fp8_e8m0, block};
  }
  layer.weight.format = WeightFp8Scaled{data(weight), data(scale), block, scale.dtype};
  return MatrixFormat{StoredFormat::fp8_f32, block};
}

std::optional<MatrixFormat> CheckpointBinder::bind_mxfp4(const io::TensorEntry& weight,
                                                         const Scale& scale, Linear& layer) {
  const int64_t outputs = layer.weight.outputs;
  const int64_t inputs = layer.weight.inputs;
  if (!has_shape(weight, weight.dtype, {outputs, inputs / 2}) ||
      !has_shape(*scale.entry, DType::f8_e8m0, {outputs, inputs / 32})) {
    return std::nullopt;
  }
  layer.weight.format = WeightMxfp4{data(weight), data(*scale.entry)};
  return MatrixFormat{StoredFormat::mxfp4};
}

// A positive number: NAME plus suffix.
std::optional<float> CheckpointBinder::scalar(const std::string& name, const Scales& scales,
                                              std::string_view suffix, std::string_view what) {
  const auto found = std::find_if(scales.begin(), scales.end(),
                                  [&](const Scale& scale) { return scale.suffix == suffix; });
  if (found == scales.end()) {
    finding(str_cat(name, ".weight in ", checkpoint_.file_name(name + ".weight"),
                    " is NVFP4 without ", what, ", expected ", name, suffix, ", F32 []"));
    return std::nullopt;
  }
  const io::TensorEntry& entry = *found->entry;
  if (entry.shape.elements() != 1 && !has_shape(entry, DType::f32, {})) {
    return std::nullopt;
  }
  if (!has_shape(entry, DType::f32, entry.shape)) {
    return std::nullopt;
  }
  float value;
  std::memcpy(&value, data(entry), sizeof(value));
  if (!(value > 0) || std::isinf(value)) {
    finding(str_cat(entry.name, " in ", checkpoint_.file_name(entry.name), " is ", value,
                    ", expected a positive number"));
    return std::nullopt;
  }
  return value;
}

std::optional<MatrixFormat> CheckpointBinder::bind_nvfp4(const std::string& name,
                                                         const io::TensorEntry& weight,
                                                         const Scales& scales,
                                                         bool wants_input_scale, Linear& layer) {
  const int64_t outputs = layer.weight.outputs;
  const int64_t inputs = layer.weight.inputs;
  const io::TensorEntry* scale = checkpoint_.find(name + ".weight_scale");
  if (scale == nullptr) {
    finding(str_cat(described(weight), " without a scale, expected ", name, ".scale, ",
                    type_and_shape(DType::f8_e8m0, {outputs, inputs / 32}), ", or ", name,
                    ".weight_scale, ", type_and_shape(DType::f8_e4m3, {outputs, inputs / 16})));
    return std::nullopt;
  }
  const bool fits = has_shape(weight, weight.dtype, {outputs, inputs / 2}) &&
                    has_shape(*scale, DType::f8_e4m3, {outputs, inputs / 16});
  const std::optional<float> global = scalar(name, scales, ".weight_scale_2", "a global scale");
  const std::optional<float> input =
      wants_input_scale ? scalar(name, scales, ".input_scale",
                                 "an input scale (--nvfp4-activations e4m3 does without)")
                        : 1.0f;
  if (!fits || !global.has_value() || !input.has_value()) {
    return std::nullopt;
  }
  layer.weight.format = WeightNvfp4{data(weight), data(*scale), *global};
  layer.input_scale = *input;
  return MatrixFormat{StoredFormat::nvfp4};
}

Linear CheckpointBinder::matrix(const std::string& name, int64_t outputs, int64_t inputs,
                                MatrixUse use) {
  Linear layer;
  layer.weight.outputs = outputs;
  layer.weight.inputs = inputs;
  const std::optional<MatrixFormat> declared = declared_format(quantization_, use);
  const Scales scales = scales_of(name);
  const io::TensorEntry* weight = checkpoint_.find(name + ".weight");
  if (weight == nullptr) {
    const TensorSpec expected =
        stored_tensors(declared.value_or(released_format(use)), name, outputs, inputs).front();
    finding(str_cat(expected.name, " is missing (expected ",
                    type_and_shape(expected.dtype, expected.shape), ")"));
    return layer;
  }
  bind(*weight, "");
  const bool is_calibrated = input_rule(StoredFormat::nvfp4, use) == InputRule::e2m1_16 &&
                             activations_ == Nvfp4Activations::calibrated;
  std::optional<MatrixFormat> format;
  switch (weight->dtype) {
    case DType::bf16:
    case DType::f16:
    case DType::f32:
      format = bind_plain(*weight, scales, layer);
      break;
    case DType::f8_e4m3:
      format = bind_fp8(name, *weight, scales, declared, layer);
      break;
    case DType::i8:
    case DType::u8:
      format = scales.size() == 1 && scales.front().entry->dtype == DType::f8_e8m0
                   ? bind_mxfp4(*weight, scales.front(), layer)
                   : bind_nvfp4(name, *weight, scales, is_calibrated, layer);
      break;
    default:
      finding(str_cat(described(*weight), ", which no format of weights has"));
  }
  if (!format.has_value()) {
    return layer;
  }
  if (declared.has_value() && !(*format == *declared)) {
    finding(str_cat(described(*weight), " (", format_text(*format), "), but config.json declares ",
                    format_text(*declared), " for it"));
  }
  layer.input = input_rule(format->format, use);
  if (layer.input == InputRule::e2m1_16 && !is_calibrated) {
    layer.input = InputRule::e4m3_32;
  }
  const std::string text = format_text(*format);
  bind(*weight, text);
  for (const Scale& scale : scales) {
    bind(*scale.entry, text);
  }
  return layer;
}

EngramTable CheckpointBinder::engram_table(const std::string& name, int64_t rows, int64_t width) {
  EngramTable table = {.rows = rows, .width = width};
  StoredFormat format = quantization_.engram_tables.value_or(StoredFormat::fp8_e8m0);
  const io::TensorEntry* weight = checkpoint_.find(name + ".weight");
  if (weight != nullptr && !quantization_.engram_tables.has_value()) {
    const bool is_packed = weight->dtype == DType::u8 || weight->dtype == DType::i8;
    format = weight->dtype == DType::bf16 ? StoredFormat::bf16
             : is_packed                  ? StoredFormat::mxfp4
                                          : StoredFormat::fp8_e8m0;
  }
  std::vector<TensorSpec> tensors = engram_tensors(format, name, rows, width);
  if (format == StoredFormat::mxfp4 && weight != nullptr && weight->dtype == DType::i8) {
    tensors.front().dtype = DType::i8;  // both names of a byte occur
  }
  table.codes = raw(tensors[0].name, tensors[0].dtype, tensors[0].shape);
  table.scales =
      tensors.size() > 1 ? raw(tensors[1].name, tensors[1].dtype, tensors[1].shape) : nullptr;
  table.format = table_format(format);
  for (const TensorSpec& tensor : tensors) {
    if (const io::TensorEntry* entry = checkpoint_.find(tensor.name)) {
      bind(*entry, format == StoredFormat::bf16    ? "bf16"
                   : format == StoredFormat::mxfp4 ? "mxfp4"
                                                   : "fp8 1x32");
    }
  }
  return table;
}

void CheckpointBinder::finish() const {
  std::vector<std::string> all = findings_;
  for (const std::string_view name : checkpoint_.names()) {
    if (bound_.count(name) == 0) {
      all.push_back(
          str_cat(name, " in ", checkpoint_.file_name(name), " is not known to this model"));
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

Weights bind_weights(const io::Checkpoint& checkpoint, const Config& config,
                     Nvfp4Activations activations) {
  CheckpointBinder binder(checkpoint, config.quantization, activations);
  Weights weights = bind_weights(binder, config);
  binder.finish();
  return weights;
}

}  // namespace tessera::deepseek_v41
