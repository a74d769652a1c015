#include "models/deepseek_v41/catalogue.h"

#include <algorithm>
#include <array>

#include "models/deepseek_v41/tensor_binder.h"
#include "models/deepseek_v41/weights.h"

namespace tessera::deepseek_v41 {
namespace {

// Remembers what it is asked for; binds nothing.
class CatalogueBinder : public TensorBinder {
 public:
  explicit CatalogueBinder(const Quantization& quantization) : quantization_(quantization) {}

  const std::byte* raw(const std::string& name, DType dtype, const Shape& shape) override {
    tensors.push_back({name, dtype, shape});
    return nullptr;
  }

  Linear matrix(const std::string& name, int64_t outputs, int64_t inputs, MatrixUse use) override {
    const MatrixFormat format = declared_format(quantization_, use).value_or(released_format(use));
    add(stored_tensors(format, name, outputs, inputs));
    Linear layer;
    layer.weight.outputs = outputs;
    layer.weight.inputs = inputs;
    return layer;
  }

  EngramTable engram_table(const std::string& name, int64_t rows, int64_t width) override {
    add(engram_tensors(quantization_.engram_tables.value_or(StoredFormat::fp8_e8m0), name, rows,
                       width));
    return {.rows = rows, .width = width};
  }

  std::vector<TensorSpec> tensors;

 private:
  void add(const std::vector<TensorSpec>& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
  }

  const Quantization& quantization_;
};

struct Rule {
  std::string_view prefix;  // of the name, or of what follows "layers.N."
  std::string_view component;
};

// The first prefix that fits decides.
constexpr std::array kTopLevel = {
    Rule{"embed.", "embedding"},      //
    Rule{"vision.", "vision_tower"},  //
    Rule{"aligner.", "aligner"},      //
    Rule{"image_", "image_marks"},    //
    Rule{"norm.", "norms"},           //
    Rule{"head.", "head"},            //
    Rule{"mtp.", "dspark"},           //
};
constexpr std::array kLayer = {
    Rule{"attn_norm.", "norms"},
    Rule{"ffn_norm.", "norms"},
    Rule{"engram.embed.", "engram_tables"},
    Rule{"engram.", "engram"},
    Rule{"hc_", "hyper_connections"},
    Rule{"attn.compressor.", "compressor"},
    Rule{"attn.indexer.", "indexer"},
    Rule{"attn.", "attention"},
    Rule{"ffn.gate.", "routers"},
    Rule{"ffn.experts.", "experts"},
    Rule{"ffn.shared_experts.", "shared_experts"},
};

template <size_t N>
std::string_view first_fit(const std::array<Rule, N>& rules, std::string_view name) {
  for (const Rule& rule : rules) {
    if (name.starts_with(rule.prefix)) {
      return rule.component;
    }
  }
  return "other";
}

}  // namespace

MatrixFormat released_format(MatrixUse use) {
  switch (use) {
    case MatrixUse::dense:
      return {StoredFormat::bf16};
    case MatrixUse::projection:
    case MatrixUse::output_groups:
      return {StoredFormat::fp8_e8m0, 32};
    case MatrixUse::expert:
    case MatrixUse::draft_expert:
      break;
  }
  return {StoredFormat::mxfp4};
}

std::optional<MatrixFormat> declared_format(const Quantization& quantization, MatrixUse use) {
  switch (use) {
    case MatrixUse::dense:
      return std::nullopt;
    case MatrixUse::projection:
    case MatrixUse::output_groups:
      return quantization.projections;
    case MatrixUse::expert:
      return quantization.experts;
    case MatrixUse::draft_expert:
      break;
  }
  return quantization.draft_experts;
}

InputRule input_rule(StoredFormat format, MatrixUse use) {
  if (use == MatrixUse::dense || use == MatrixUse::output_groups) {
    return InputRule::none;
  }
  switch (format) {
    case StoredFormat::bf16:
    case StoredFormat::f16:
    case StoredFormat::f32:
      return InputRule::none;
    case StoredFormat::fp8_e8m0:
    case StoredFormat::fp8_f32:
    case StoredFormat::mxfp4:
      break;
    case StoredFormat::nvfp4:
      return InputRule::e2m1_16;
  }
  return InputRule::e4m3_32;
}

EngramTable::Format table_format(StoredFormat format) {
  return format == StoredFormat::bf16    ? EngramTable::Format::bf16
         : format == StoredFormat::mxfp4 ? EngramTable::Format::e2m1
                                         : EngramTable::Format::e4m3;
}

std::vector<TensorSpec> engram_tensors(StoredFormat format, const std::string& name, int64_t rows,
                                       int64_t width) {
  const TensorSpec scale = {name + ".scale", DType::f8_e8m0, {rows, width / 32}};
  switch (format) {
    case StoredFormat::bf16:
      return {{name + ".weight", DType::bf16, {rows, width}}};
    case StoredFormat::mxfp4:
      return {{name + ".weight", DType::u8, {rows, width / 2}}, scale};
    default:
      return {{name + ".weight", DType::f8_e4m3, {rows, width}}, scale};
  }
}

std::vector<TensorSpec> tensor_catalogue(const Config& config) {
  CatalogueBinder binder(config.quantization);
  bind_weights(binder, config);
  return std::move(binder.tensors);
}

std::string_view component_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (name.starts_with(kLayers)) {
    const size_t dot = name.find('.', kLayers.size());
    return first_fit(kLayer, name.substr(std::min(dot, name.size() - 1) + 1));
  }
  if (name.starts_with("mtp.") && name.find(".ffn.experts.") != std::string_view::npos) {
    return "dspark_experts";
  }
  return first_fit(kTopLevel, name);
}

std::vector<std::string_view> component_names() {
  return {"embedding",     "vision_tower",   "aligner",
          "image_marks",   "norms",          "hyper_connections",
          "engram_tables", "engram",         "attention",
          "compressor",    "indexer",        "routers",
          "experts",       "shared_experts", "head",
          "dspark",        "dspark_experts", "other"};
}

}  // namespace tessera::deepseek_v41
