// The tiny checkpoint through every format and back.
#include "models/deepseek_v41/conversion.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "models/deepseek_v41/catalogue.h"
#include "tests/support/edited_model.h"

namespace tessera::deepseek_v41 {
namespace {

// Every routed expert of the backbone, for --to nvfp4.
InputScales scales_of(const Config& config) {
  InputScales scales;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int64_t e = 0; e < config.experts; ++e) {
      for (const char* matrix : {"w1", "w2", "w3"}) {
        scales[str_cat("layers.", layer, ".ffn.experts.", e, ".", matrix)] = 0.01f;
      }
    }
  }
  return scales;
}

// A folder with config.json and weights.
class Converted {
 public:
  Converted(const std::string& from, std::string_view to, int threads = 2) {
    const io::Json json = io::read_json_file(from + "/config.json");
    const Config config = parse_config(json, "config.json");
    const io::Checkpoint checkpoint(from);
    const ConversionTarget target = *conversion_target(to);
    Conversion conversion(checkpoint, config, target, scales_of(config));
    ThreadPool pool(threads);
    for (size_t shard = 0; shard < conversion.layout().shards.size(); ++shard) {
      conversion.write_shard(pool, shard, folder_.path(), [&](int64_t bytes) { bytes_ += bytes; });
    }
    EXPECT_EQ(bytes_, conversion.layout().data_bytes);
    sums = conversion.sums();
    folder_.write("model.safetensors.index.json", conversion.layout().index);
    folder_.write("config.json", io::dump_compact(converted_config(json, target)));
  }
  const std::string& path() const { return folder_.path(); }
  ConversionSums sums;

 private:
  test::TempFolder folder_;
  int64_t bytes_ = 0;
};

// A bound checkpoint.
class Opened {
 public:
  explicit Opened(const std::string& folder)
      : checkpoint_(folder), config_(read_config(folder + "/config.json")) {
    weights_ = bind_weights(checkpoint_, config_);
  }
  const Weights& weights() const { return weights_; }
  const io::Checkpoint& checkpoint() const { return checkpoint_; }
  const Config& config() const { return config_; }

 private:
  io::Checkpoint checkpoint_;
  Config config_;
  Weights weights_;
};

std::vector<float> values(const Linear& layer) {
  std::vector<float> v(static_cast<size_t>(layer.weight.outputs * layer.weight.inputs));
  dequantize_rows(layer.weight, 0, layer.weight.outputs, v.data());
  return v;
}

std::vector<bf16> row(const EngramTable& table, int64_t id) {
  std::vector<bf16> v(static_cast<size_t>(table.width));
  engram_row(table, id, v.data());
  return v;
}

void expect_equal_values(const Weights& a, const Weights& b) {
  for (size_t l = 0; l < a.layers.size(); ++l) {
    const LayerWeights& x = a.layers[l];
    const LayerWeights& y = b.layers[l];
    for (size_t e = 0; e < x.ffn.experts.size(); ++e) {
      EXPECT_EQ(values(x.ffn.experts[e].w1), values(y.ffn.experts[e].w1)) << l << " " << e;
      EXPECT_EQ(values(x.ffn.experts[e].w2), values(y.ffn.experts[e].w2)) << l << " " << e;
    }
    EXPECT_EQ(values(x.ffn.shared.w3), values(y.ffn.shared.w3)) << l;
    EXPECT_EQ(values(x.attn.wq_b), values(y.attn.wq_b)) << l;
    EXPECT_EQ(values(x.attn.wo_a.back()), values(y.attn.wo_a.back())) << l;
    ASSERT_EQ(x.engram.has_value(), y.engram.has_value());
    for (const int64_t id : {0, 17, 600}) {
      if (x.engram.has_value()) {
        EXPECT_EQ(row(x.engram->table, id), row(y.engram->table, id));
      }
    }
  }
}

TEST(Conversion, ToWhatItIsCopiesEveryByte) {
  const Converted same(test::tiny_model(), "mxfp4");
  EXPECT_EQ(same.sums.rounded_matrices, 0);
  const io::Checkpoint a(test::tiny_model());
  const io::Checkpoint b(same.path());
  ASSERT_EQ(a.names(), b.names());
  for (const std::string_view name : a.names()) {
    const TensorView x = a.view(name);
    const TensorView y = b.view(name);
    ASSERT_EQ(x.bytes(), y.bytes()) << name;
    ASSERT_EQ(std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())), 0) << name;
  }
}

// bf16 holds every value of the release, and what comes back from it has the same values.
TEST(Conversion, Bf16AndBackKeepsEveryValue) {
  const Opened original(test::tiny_model());
  const Converted wide(test::tiny_model(), "bf16");
  const Opened bf16(wide.path());
  expect_equal_values(original.weights(), bf16.weights());
  EXPECT_EQ(bf16.weights().layers[1].engram->table.format, EngramTable::Format::bf16);
  EXPECT_EQ(bf16.weights().layers[0].ffn.experts[0].w1.input, InputRule::none);
  const Converted back(wide.path(), "mxfp4");
  const Opened narrow(back.path());
  EXPECT_TRUE(std::holds_alternative<WeightMxfp4>(
      narrow.weights().layers[0].ffn.experts[0].w1.weight.format));
  expect_equal_values(original.weights(), narrow.weights());
}

TEST(Conversion, Nvfp4IsACastAndLeavesTheDraftsAlone) {
  const Opened original(test::tiny_model());
  const Converted converted(test::tiny_model(), "nvfp4");
  EXPECT_EQ(converted.sums.rounded_matrices, 0);
  EXPECT_EQ(converted.sums.cast_matrices, 8 * 10 * 3);
  const Opened nvfp4(converted.path());
  expect_equal_values(original.weights(), nvfp4.weights());
  const Weights& w = nvfp4.weights();
  EXPECT_TRUE(std::holds_alternative<WeightNvfp4>(w.layers[7].ffn.experts[9].w2.weight.format));
  EXPECT_EQ(w.layers[7].ffn.experts[9].w2.input_scale, 0.01f);
  EXPECT_TRUE(
      std::holds_alternative<WeightMxfp4>(w.dspark.stages[0].ffn.experts[0].w1.weight.format));
}

TEST(Conversion, Fp8ExpertsAreTheReferenceConverters) {
  const Opened original(test::tiny_model());
  const Converted converted(test::tiny_model(), "fp8");
  const Opened fp8(converted.path());
  const Weight& weight = fp8.weights().layers[3].ffn.experts[4].w3.weight;
  EXPECT_EQ(std::get<WeightFp8Block>(weight.format).block, 32);
  EXPECT_TRUE(std::holds_alternative<WeightFp8Block>(
      fp8.weights().dspark.stages[1].ffn.experts[0].w1.weight.format));
  expect_equal_values(original.weights(), fp8.weights());
}

TEST(Conversion, ThreadsDoNotChangeTheBytes) {
  const Converted one(test::tiny_model(), "fp8", 1);
  const Converted three(test::tiny_model(), "fp8", 3);
  const MappedFile a(one.path() + "/model.safetensors");
  const MappedFile b(three.path() + "/model.safetensors");
  ASSERT_EQ(a.bytes().size(), b.bytes().size());
  EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()), 0);
}

TEST(Conversion, Nvfp4NeedsInputScales) {
  const Opened original(test::tiny_model());
  InputScales scales = scales_of(original.config());
  scales.erase("layers.2.ffn.experts.1.w3");
  try {
    const Conversion conversion(original.checkpoint(), original.config(),
                                *conversion_target("nvfp4"), scales);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    EXPECT_NE(std::string(error.what()).find("layers.2.ffn.experts.1.w3"), std::string::npos);
  }
}

TEST(Conversion, ValuesThatNoFormatHas) {
  const std::string name = "layers.2.ffn.shared_experts.w1.weight";
  test::EditedWeights edited(test::tiny_model());
  edited.at(name).bytes[100] = '\x7f';  // NaN
  const test::TempFolder folder;
  edited.write(folder.path());
  const io::Checkpoint checkpoint(folder.path());
  Conversion conversion(checkpoint, read_config(test::tiny_model() + "/config.json"),
                        *conversion_target("bf16"), {});
  const test::TempFolder out;
  ThreadPool pool(2);
  try {
    conversion.write_shard(pool, 0, out.path(), [](int64_t) {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(out / "model.safetensors"));
}

// What each target writes into config.json reads back as what it is.
TEST(Conversion, ConfigDeclaresTheTarget) {
  const io::Json released =
      io::read_json_file(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  for (const char* name : {"bf16", "fp8", "mxfp4", "nvfp4"}) {
    const ConversionTarget target = *conversion_target(name);
    const Quantization q =
        parse_config(converted_config(released, target), "config.json").quantization;
    if (std::string_view(name) == "bf16") {
      EXPECT_EQ(q.projections, std::nullopt);
      continue;
    }
    EXPECT_EQ(q.projections, target.projections) << name;
    EXPECT_EQ(q.experts, target.experts) << name;
    EXPECT_EQ(q.draft_experts, target.draft_experts) << name;
  }
  EXPECT_THROW(converted_config(io::parse_json(R"({"dim": 64})", "flat"),  // cannot declare it
                                *conversion_target("fp8")),
               Error);
  EXPECT_FALSE(conversion_target("int4").has_value());
}

}  // namespace
}  // namespace tessera::deepseek_v41
