#include "models/deepseek_v41/synthetic.h"

#include <cstring>

#include "base/check.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/stored_format.h"
#include "ops/rope/rope.h"

namespace tessera::deepseek_v41 {

// Makes a tensor when it is asked for.
class SyntheticWeights::Binder : public TensorBinder {
 public:
  Binder(ExecContext& ctx, const Config& config, uint64_t seed, SyntheticWeights& owner)
      : ctx_(ctx), config_(config), seed_(seed), owner_(owner) {}

  const std::byte* raw(const std::string& name, DType dtype, const Shape& shape) override {
    const TensorSpec tensor = {name, dtype, shape};
    return make(tensor, tensor);
  }

  Linear matrix(const std::string& name, int64_t outputs, int64_t inputs, MatrixUse use) override;
  EngramTable engram_table(const std::string& name, int64_t rows, int64_t width) override;

 private:
  // Of the tensors of a matrix, the weight first.
  std::vector<const std::byte*> make_all(const std::vector<TensorSpec>& tensors) {
    std::vector<const std::byte*> data;
    for (const TensorSpec& tensor : tensors) {
      data.push_back(make(tensor, tensors.front()));
    }
    return data;
  }

  const std::byte* make(const TensorSpec& tensor, const TensorSpec& weight) {
    owner_.bytes_ += tensor.bytes();
    std::byte* data = owner_.memory_.emplace_back(tensor.bytes()).data();
    SyntheticTensor(tensor, weight, seed_)
        .fill(ctx_.threads, 0, {data, static_cast<size_t>(tensor.bytes())});
    return data;
  }

  ExecContext& ctx_;
  const Config& config_;
  uint64_t seed_;
  SyntheticWeights& owner_;
};

Linear SyntheticWeights::Binder::matrix(const std::string& name, int64_t outputs, int64_t inputs,
                                        MatrixUse use) {
  const MatrixFormat format =
      declared_format(config_.quantization, use).value_or(released_format(use));
  const std::vector<const std::byte*> data =
      make_all(stored_tensors(format, name, outputs, inputs));
  const auto number = [&](size_t tensor) {
    float value;
    std::memcpy(&value, data[tensor], sizeof(value));
    return value;
  };
  Linear layer;
  layer.weight = {WeightBf16{data[0]}, outputs, inputs};
  layer.input = input_rule(format.format, use);
  switch (format.format) {
    case StoredFormat::bf16:
      break;
    case StoredFormat::f16:
      layer.weight.format = WeightF16{data[0]};
      break;
    case StoredFormat::f32:
      layer.weight.format = WeightF32{data[0]};
      break;
    case StoredFormat::fp8_e8m0:
      layer.weight.format = WeightFp8Block{data[0], data[1], format.block};
      break;
    case StoredFormat::fp8_f32:
      layer.weight.format = WeightFp8Scaled{data[0], data[1], format.block};
      break;
    case StoredFormat::mxfp4:
      layer.weight.format = WeightMxfp4{data[0], data[1]};
      break;
    case StoredFormat::nvfp4:
      layer.weight.format = WeightNvfp4{data[0], data[1], number(2)};
      layer.input_scale = layer.input == InputRule::e2m1_16 ? number(3) : 1.0f;
      break;
  }
  return layer;
}

EngramTable SyntheticWeights::Binder::engram_table(const std::string& name, int64_t rows,
                                                   int64_t width) {
  const StoredFormat format = config_.quantization.engram_tables.value_or(StoredFormat::fp8_e8m0);
  const std::vector<const std::byte*> data = make_all(engram_tensors(format, name, rows, width));
  EngramTable table;
  table.format = table_format(format);
  table.codes = data[0];
  table.scales = data.size() > 1 ? data[1] : nullptr;
  table.rows = rows;
  table.width = width;
  return table;
}

SyntheticWeights::SyntheticWeights(ExecContext& ctx, const Config& config, uint64_t seed) {
  Binder binder(ctx, config, seed, *this);
  weights_ = bind_weights(binder, config);
}

Network synthetic_network(const Config& config, const SyntheticWeights& weights) {
  Network network;
  network.config = config;
  network.weights = weights.weights();
  network.window_frequencies = rope_frequencies(config.rotary_dim, config.rope_theta, {});
  network.compressed_frequencies =
      rope_frequencies(config.rotary_dim, config.compress_rope_theta, config.yarn);
  return network;
}

Config text_only(const Config& config) {
  Config c = config;
  c.engram.layers.clear();
  c.engram.table_rows.clear();
  c.dspark.stages = 0;
  c.dspark.target_layers.clear();
  c.vision.layers = 0;
  c.image_token = -1;
  return c;
}

Config tower_only(const Config& config) {
  Config c = text_only(config);
  c.vision.layers = config.vision.layers;
  c.image_token = config.image_token;
  c.layers = 0;
  c.vocab = 0;
  c.compress_ratios.clear();
  c.kv_sources.clear();
  c.index_sources.clear();
  c.candidate_source = -1;
  return c;
}

Config text_excerpt(const Config& config, const TextExcerpt& excerpt) {
  TESSERA_CHECK(excerpt.layers > 0 && excerpt.experts >= config.active_experts);
  Config c = text_only(config);
  c.layers = excerpt.layers;
  c.experts = excerpt.experts;
  c.vocab = excerpt.vocab;
  c.compress_ratios.assign(static_cast<size_t>(excerpt.layers), 2);
  c.kv_sources = {0};
  c.index_sources = {0};
  c.candidate_source = -1;
  return c;
}

}  // namespace tessera::deepseek_v41
