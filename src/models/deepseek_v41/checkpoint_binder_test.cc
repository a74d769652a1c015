// Formats of matrices by what their tensors are, and an error of its own for every pair that does
// not fit together. The released layouts are in tests/checkpoint_layouts_test.cc.
#include "models/deepseek_v41/checkpoint_binder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "tests/support/edited_model.h"

namespace tessera::deepseek_v41 {
namespace {

using test::EditedWeights;

constexpr const char* kExpert = "layers.2.ffn.experts.1.w1";           // [64, 96]
constexpr const char* kProjection = "layers.0.ffn.shared_experts.w1";  // [64, 96]

Config tiny_config(bool is_declared) {
  Config config = read_config(test::tiny_model() + "/config.json");
  if (!is_declared) {
    config.quantization = {};
  }
  return config;
}

void add_scalar(EditedWeights& edited, const std::string& name, float value) {
  edited.add(name, DType::f32, {});
  std::memcpy(edited.at(name).bytes.data(), &value, sizeof(value));
}

// One expert matrix as NVIDIA's export has it.
void make_nvfp4(EditedWeights& edited, const std::string& name, int64_t outputs, int64_t inputs) {
  edited.remove(name + ".scale");
  edited.change(name + ".weight", DType::u8, {outputs, inputs / 2});
  edited.add(name + ".weight_scale", DType::f8_e4m3, {outputs, inputs / 16});
  add_scalar(edited, name + ".weight_scale_2", 0.25f);
  add_scalar(edited, name + ".input_scale", 0.125f);
}

// The weights of an edited tiny checkpoint, whose bytes live as long as this.
class Bound {
 public:
  Bound(const EditedWeights& edited, const Config& config,
        Nvfp4Activations activations = Nvfp4Activations::calibrated)
      : config_(config) {
    edited.write(folder_.path());
    checkpoint_.emplace(folder_.path());
    weights_ = bind_weights(*checkpoint_, config_, activations);
  }
  const Linear& expert() const { return weights_.layers[2].ffn.experts[1].w1; }
  const Linear& projection() const { return weights_.layers[0].ffn.shared.w1; }
  const Weights& weights() const { return weights_; }

 private:
  test::TempFolder folder_;
  Config config_;
  std::optional<io::Checkpoint> checkpoint_;
  Weights weights_;
};

std::string refusal(const EditedWeights& edited, const Config& config = tiny_config(false)) {
  try {
    const Bound bound(edited, config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// The finding itself, alone.
void expect_finding(const EditedWeights& edited, const std::string& finding,
                    const Config& config = tiny_config(false)) {
  const std::string message = refusal(edited, config);
  EXPECT_NE(message.find(": 1 tensors do not fit"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("? " + finding)) << message;
}

TEST(CheckpointBinder, Nvfp4Experts) {
  EditedWeights edited(test::tiny_model());
  make_nvfp4(edited, kExpert, 64, 96);
  const Bound bound(edited, tiny_config(false));
  const WeightNvfp4& w = std::get<WeightNvfp4>(bound.expert().weight.format);
  EXPECT_EQ(w.global, 0.25f);
  EXPECT_EQ(bound.expert().input, InputRule::e2m1_16);
  EXPECT_EQ(bound.expert().input_scale, 0.125f);
  const Bound e4m3(edited, tiny_config(false), Nvfp4Activations::e4m3);
  EXPECT_EQ(e4m3.expert().input, InputRule::e4m3_32);
  EXPECT_EQ(e4m3.expert().input_scale, 1.0f);
  // All others, drafts among them, are what they were.
  EXPECT_TRUE(std::holds_alternative<WeightMxfp4>(
      bound.weights().dspark.stages[0].ffn.experts[0].w1.weight.format));
}

TEST(CheckpointBinder, PlainMatricesDoNotQuantiseTheirInputs) {
  const std::pair<DType, std::string_view> types[] = {
      {DType::bf16, "bf16"}, {DType::f16, "f16"}, {DType::f32, "f32"}};
  for (const auto& [dtype, name] : types) {
    EditedWeights edited(test::tiny_model());
    edited.remove(str_cat(kProjection, ".scale"));
    edited.change(str_cat(kProjection, ".weight"), dtype, {64, 96});
    const Bound bound(edited, tiny_config(false));
    EXPECT_EQ(format_name(bound.projection().weight), name);
    EXPECT_EQ(bound.projection().input, InputRule::none);
  }
}

TEST(CheckpointBinder, Fp8WithScalesOfAllKinds) {
  const std::string weight = str_cat(kProjection, ".weight");
  for (const char* suffix : {".scale", ".weight_scale_inv", ".weight_scale"}) {
    for (const DType dtype : {DType::f8_e8m0, DType::f32, DType::bf16}) {
      EditedWeights edited(test::tiny_model());
      edited.remove(str_cat(kProjection, ".scale"));
      edited.add(str_cat(kProjection, suffix), dtype, {1, 2});  // [64, 96] in tiles of 64
      const Bound bound(edited, tiny_config(false));
      EXPECT_EQ(bound.projection().input, InputRule::e4m3_32);
      if (dtype == DType::f8_e8m0) {
        EXPECT_EQ(std::get<WeightFp8Block>(bound.projection().weight.format).block, 64);
      } else {
        const auto& w = std::get<WeightFp8Scaled>(bound.projection().weight.format);
        EXPECT_EQ(w.block, 64);
        EXPECT_EQ(w.scale_type, dtype);
      }
    }
  }
}

TEST(CheckpointBinder, EngramTablesOfOtherFormats) {
  EditedWeights edited(test::tiny_model());
  const std::string name = "layers.1.engram.embed";
  const int64_t rows = edited.at(name + ".weight").shape[0];
  const int64_t width = edited.at(name + ".weight").shape[1];
  edited.change(name + ".weight", DType::u8, {rows, width / 2});
  EXPECT_EQ(Bound(edited, tiny_config(false)).weights().layers[1].engram->table.format,
            EngramTable::Format::e2m1);
  Config plain = tiny_config(false);
  plain.quantization.engram_tables = StoredFormat::bf16;
  const std::string message = refusal(edited, plain);
  EXPECT_NE(message.find(str_cat(name, ".weight in model.safetensors is U8 [", rows, ",", width / 2,
                                 "], expected BF16 [", rows, ",", width, "]")),
            std::string::npos)
      << message;
  edited.change(name + ".weight", DType::bf16, {rows, width});
  edited.remove(name + ".scale");
  EXPECT_EQ(Bound(edited, tiny_config(false)).weights().layers[1].engram->table.format,
            EngramTable::Format::bf16);
}

TEST(CheckpointBinder, WeightWithoutScale) {
  EditedWeights edited(test::tiny_model());
  edited.remove(str_cat(kProjection, ".scale"));
  expect_finding(edited, str_cat(kProjection,
                                 ".weight in model.safetensors is F8_E4M3 [64,96] without a scale, "
                                 "expected ",
                                 kProjection, ".scale, F8_E8M0 [2,3]"));
}

TEST(CheckpointBinder, PackedWeightWithoutScale) {
  EditedWeights edited(test::tiny_model());
  edited.remove(str_cat(kExpert, ".scale"));
  expect_finding(edited, str_cat(kExpert,
                                 ".weight in model.safetensors is I8 [64,48] without a scale, "
                                 "expected ",
                                 kExpert, ".scale, F8_E8M0 [64,3], or ", kExpert,
                                 ".weight_scale, F8_E4M3 [64,6]"));
}

TEST(CheckpointBinder, TwoScales) {
  EditedWeights edited(test::tiny_model());
  edited.add(str_cat(kProjection, ".weight_scale_inv"), DType::f32, {2, 3});
  expect_finding(edited, str_cat(kProjection,
                                 ".weight in model.safetensors is F8_E4M3 [64,96] with two scales, "
                                 "expected ",
                                 kProjection, ".scale, F8_E8M0 [2,3]"));
}

TEST(CheckpointBinder, ScaleOfTheWrongBlock) {
  EditedWeights edited(test::tiny_model());
  edited.change(str_cat(kProjection, ".scale"), DType::f8_e8m0, {2, 2});
  expect_finding(edited, str_cat(kProjection,
                                 ".scale in model.safetensors is F8_E8M0 [2,2], expected F8_E8M0 "
                                 "[2,3]"));
}

TEST(CheckpointBinder, ScaleOfAnotherType) {
  EditedWeights edited(test::tiny_model());
  edited.change(str_cat(kProjection, ".scale"), DType::i32, {2, 3});
  expect_finding(
      edited,
      str_cat(kProjection, ".scale in model.safetensors is I32 [2,3], expected F8_E8M0 [2,3]"));
}

TEST(CheckpointBinder, PlainWeightWithScale) {
  EditedWeights edited(test::tiny_model());
  edited.change(str_cat(kProjection, ".weight"), DType::bf16, {64, 96});
  expect_finding(edited,
                 str_cat(kProjection,
                         ".weight in model.safetensors is BF16 [64,96], which has no scales, "
                         "but there is ",
                         kProjection, ".scale"));
}

TEST(CheckpointBinder, Nvfp4WithoutItsParts) {
  EditedWeights whole(test::tiny_model());
  make_nvfp4(whole, kExpert, 64, 96);
  EditedWeights edited = whole;
  edited.remove(str_cat(kExpert, ".weight_scale_2"));
  expect_finding(edited, str_cat(kExpert,
                                 ".weight in model.safetensors is NVFP4 without a global "
                                 "scale, expected ",
                                 kExpert, ".weight_scale_2, F32 []"));
  edited = whole;
  edited.remove(str_cat(kExpert, ".input_scale"));
  expect_finding(edited, str_cat(kExpert,
                                 ".weight in model.safetensors is NVFP4 without an input "
                                 "scale (--nvfp4-activations e4m3 does without), expected ",
                                 kExpert, ".input_scale, F32 []"));
  EXPECT_NO_THROW(Bound(edited, tiny_config(false), Nvfp4Activations::e4m3));
  edited = whole;
  edited.change(str_cat(kExpert, ".weight_scale"), DType::f8_e4m3, {64, 3});
  expect_finding(edited, str_cat(kExpert,
                                 ".weight_scale in model.safetensors is F8_E4M3 [64,3], "
                                 "expected F8_E4M3 [64,6]"));
}

TEST(CheckpointBinder, GlobalScalesArePositiveNumbers) {
  for (const float value : {0.0f, -1.0f, INFINITY, NAN}) {
    EditedWeights edited(test::tiny_model());
    make_nvfp4(edited, kExpert, 64, 96);
    const std::string name = str_cat(kExpert, ".weight_scale_2");
    std::memcpy(edited.at(name).bytes.data(), &value, sizeof(value));
    expect_finding(
        edited, str_cat(name, " in model.safetensors is ", value, ", expected a positive number"));
  }
}

TEST(CheckpointBinder, TypesThatNoFormatHas) {
  EditedWeights edited(test::tiny_model());
  edited.change(str_cat(kProjection, ".weight"), DType::f8_e5m2, {64, 96});
  expect_finding(edited,
                 str_cat(kProjection,
                         ".weight in model.safetensors is F8_E5M2 [64,96], which no format of "
                         "weights has"));
}

// config.json says FP8 and MXFP4, the tensors are something else: both facts.
TEST(CheckpointBinder, DeclarationsThatTheTensorsContradict) {
  EditedWeights edited(test::tiny_model());
  edited.remove(str_cat(kProjection, ".scale"));
  edited.change(str_cat(kProjection, ".weight"), DType::bf16, {64, 96});
  expect_finding(edited,
                 str_cat(kProjection,
                         ".weight in model.safetensors is BF16 [64,96] (bf16), but "
                         "config.json declares fp8 32x32 for it"),
                 tiny_config(true));
  EditedWeights experts(test::tiny_model());
  make_nvfp4(experts, kExpert, 64, 96);
  expect_finding(experts,
                 str_cat(kExpert,
                         ".weight in model.safetensors is U8 [64,48] (nvfp4), but "
                         "config.json declares mxfp4 for it"),
                 tiny_config(true));
}

// Tiles that reach over the border of two output groups cannot be taken apart.
TEST(CheckpointBinder, TilesAcrossOutputGroups) {
  EditedWeights edited(test::tiny_model());
  const Shape shape = edited.at("layers.0.attn.wo_a.weight").shape;
  edited.change("layers.0.attn.wo_a.scale", DType::f8_e8m0, {(shape[0] + 63) / 64, shape[1] / 64});
  EXPECT_NE(
      refusal(edited).find("layers.0.attn.wo_a.weight: tiles of 64 rows do not fit the output "
                           "groups of 32 rows"),
      std::string::npos);
}

}  // namespace
}  // namespace tessera::deepseek_v41
