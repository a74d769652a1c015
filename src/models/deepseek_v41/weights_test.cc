// Binding rules on the tiny checkpoint: what is found where, and what one error says about a
// checkpoint that differs from its config.json in many ways.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/checkpoint_binder.h"
#include "tests/support/edited_model.h"

namespace tessera::deepseek_v41 {
namespace {

using test::EditedWeights;

class WeightsTest : public testing::Test {
 protected:
  Config config() const { return read_config(test::tiny_model() + "/config.json"); }

  // The message of the Error{bad_file} that binding the edited tensors ends in.
  std::string refusal_of(const EditedWeights& edited, const Config& config) const {
    const test::TempFolder folder;
    edited.write(folder.path());
    const io::Checkpoint checkpoint(folder.path());
    try {
      bind_weights(checkpoint, config);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
};

void expect_parts(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
  }
}

TEST_F(WeightsTest, EveryPartIsWhereTheNamesSay) {
  const io::Checkpoint checkpoint(test::tiny_model());
  const Config c = config();
  const Weights w = bind_weights(checkpoint, c);
  const auto data = [&](const std::string& name) { return checkpoint.view(name).data; };
  EXPECT_EQ(w.embed, data("embed.weight"));
  EXPECT_EQ(w.norm, data("norm.weight"));
  EXPECT_EQ(std::get<WeightBf16>(w.head.weight.format).codes, data("head.weight"));
  ASSERT_EQ(w.layers.size(), 8U);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const LayerWeights& l = w.layers[static_cast<size_t>(layer)];
    const std::string p = str_cat("layers.", layer, ".");
    EXPECT_EQ(l.attn_norm, data(p + "attn_norm.weight"));
    EXPECT_EQ(l.ffn_mix.base, data(p + "hc_ffn_base"));
    EXPECT_EQ(l.attn.sink, data(p + "attn.attn_sink"));
    EXPECT_EQ(l.ffn.bias, data(p + "ffn.gate.bias"));
    EXPECT_EQ(l.ffn.bias_vl, data(p + "ffn.gate.bias_vl"));
    ASSERT_EQ(l.ffn.experts.size(), 10U);
    const WeightMxfp4& w2 = std::get<WeightMxfp4>(l.ffn.experts[9].w2.weight.format);
    EXPECT_EQ(w2.codes, data(p + "ffn.experts.9.w2.weight"));
    EXPECT_EQ(w2.scales, data(p + "ffn.experts.9.w2.scale"));
    EXPECT_EQ(l.attn.compressor.has_value(), c.is_kv_source(layer)) << layer;
    EXPECT_EQ(l.attn.indexer.has_value(), c.is_index_source(layer)) << layer;
    EXPECT_EQ(l.engram.has_value(), layer == 1 || layer == 4) << layer;
  }
  EXPECT_EQ(w.layers[4].engram->table.scales, data("layers.4.engram.embed.scale"));
  EXPECT_EQ(w.vision.blocks.size(), 3U);
  EXPECT_EQ(w.vision.aligner_w1.bias, data("aligner.w1.bias"));
  EXPECT_EQ(w.vision.image_newline, data("image_newline"));
  ASSERT_EQ(w.dspark.stages.size(), 2U);
  EXPECT_EQ(w.dspark.stages[1].ffn.experts.size(), 6U);
  EXPECT_EQ(w.dspark.markov_embed, data("mtp.1.markov_head.embed.weight"));
}

// Group g of wo_a: its rows, and the scales of the tiles that hold them.
TEST_F(WeightsTest, OutputGroupsAreRowsOfOneMatrix) {
  const io::Checkpoint checkpoint(test::tiny_model());
  const Weights w = bind_weights(checkpoint, config());
  const TensorView codes = checkpoint.view("layers.3.attn.wo_a.weight");
  const TensorView scales = checkpoint.view("layers.3.attn.wo_a.scale");
  const std::vector<Linear>& groups = w.layers[3].attn.wo_a;
  ASSERT_EQ(groups.size(), 3U);
  for (size_t g = 0; g < groups.size(); ++g) {
    EXPECT_EQ(groups[g].weight.outputs, 32);
    EXPECT_EQ(groups[g].weight.inputs, 128);
    EXPECT_EQ(groups[g].input, InputRule::none);
    const WeightFp8Block& part = std::get<WeightFp8Block>(groups[g].weight.format);
    EXPECT_EQ(part.codes - codes.data, static_cast<int64_t>(g) * codes.bytes() / 3);
    EXPECT_EQ(part.scales - scales.data, static_cast<int64_t>(g) * scales.bytes() / 3);
  }
}

// A ratio of 1 needs no gate, and a gate that is there all the same has no meaning.
TEST_F(WeightsTest, GateOnlyWhereTokensAreGrouped) {
  EditedWeights edited(test::tiny_model());
  edited.remove("layers.2.attn.compressor.wgate.weight");
  edited.add("layers.5.attn.compressor.wgate.weight", DType::bf16, {64, 96});
  expect_parts(refusal_of(edited, config()),
               {"2 tensors do not fit",
                "layers.2.attn.compressor.wgate.weight is missing (expected BF16 [64,96])",
                "layers.5.attn.compressor.wgate.weight in model.safetensors is not known"});
}

TEST_F(WeightsTest, OneErrorListsEveryKindOfFinding) {
  EditedWeights edited(test::tiny_model());
  edited.remove("layers.6.ffn.shared_experts.w2.scale");
  edited.remove("layers.6.ffn.shared_experts.w1.weight");
  edited.change("layers.7.ffn.experts.3.w1.weight", DType::i8, {64, 47});
  edited.change("norm.weight", DType::bf16, {1, 96});
  edited.add("layers.8.attn_norm.weight", DType::bf16, {96});
  expect_parts(
      refusal_of(edited, config()),
      {"5 tensors do not fit config.json",
       "layers.6.ffn.shared_experts.w2.weight in model.safetensors is F8_E4M3 [96,64] without a "
       "scale, expected layers.6.ffn.shared_experts.w2.scale, F8_E8M0 [3,2]",
       "layers.6.ffn.shared_experts.w1.weight is missing (expected F8_E4M3 [64,96])",
       "layers.7.ffn.experts.3.w1.weight in model.safetensors is I8 [64,47], expected I8 [64,48]",
       "norm.weight in model.safetensors is BF16 [1,96], expected BF16 [96]",
       "layers.8.attn_norm.weight in model.safetensors is not known"});
}

TEST_F(WeightsTest, LongListsAreCut) {
  EditedWeights edited(test::tiny_model());
  edited.remove_all("layers.3.ffn.experts.");  // 10 experts, 3 matrices each
  const std::string message = refusal_of(edited, config());
  expect_parts(message, {"30 tensors do not fit", "; and 10 more"});
  EXPECT_LT(message.size(), 4000U);
}

TEST_F(WeightsTest, WithoutVisionTheTowerIsNotAskedFor) {
  Config text = config();
  text.vision = {};
  EditedWeights edited(test::tiny_model());
  edited.remove_all("vision.");
  edited.remove_all("aligner.");
  expect_parts(refusal_of(edited, text),
               {"3 tensors do not fit", "image_start in model.safetensors is not known"});
  edited.remove_all("image_");
  const test::TempFolder folder;
  edited.write(folder.path());
  const io::Checkpoint checkpoint(folder.path());
  EXPECT_TRUE(bind_weights(checkpoint, text).vision.blocks.empty());
}

// A tile size that config.json states and the scales do not have.
TEST_F(WeightsTest, ScalesOfAnotherTileSize) {
  Config coarse = config();
  coarse.quantization.projections->block = 128;
  expect_parts(refusal_of(EditedWeights(test::tiny_model()), coarse),
               {"layers.0.attn.wq_a.scale in model.safetensors is F8_E8M0 [3,3], expected F8_E8M0 "
                "[1,1]"});
}

}  // namespace
}  // namespace tessera::deepseek_v41
