#include "models/deepseek_v41/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "models/deepseek_v41/forward.h"
#include "tests/support/op_test.h"

namespace tessera::deepseek_v41 {
namespace {

Config released() {
  return read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
}

// Values of tests/golden/v41-tower-full/README.md, seed 1.
TEST(SyntheticStream, KeysAndNumbers) {
  struct Row {
    const char* tensor;
    uint64_t key;
    int32_t r[4];
    uint16_t bits[4];
  };
  const Row rows[] = {
      {"vision.patch_embed.proj.weight",
       0x760d30aa608c0372U,
       {-6534940, 2412036, 3670690, 514528},
       {0xbd47, 0x3c93, 0x3ce0, 0x3b7b}},
      {"vision.blocks.0.norm1.weight",
       0x11d119f62d883745U,
       {6517834, 6717604, -1249621, 1424352},
       {0x3f99, 0x3f9a, 0x3f76, 0x3f85}},
      {"aligner.w2.bias",
       0xb02462f977339368U,
       {3873313, 4975329, -789138, 130154},
       {0x3d6c, 0x3d98, 0xbc41, 0x3afe}},
  };
  test::OpContext context;
  for (const Row& row : rows) {
    const SyntheticStream stream(row.tensor, 1);
    EXPECT_EQ(stream.key(), row.key) << row.tensor;
    bf16 values[4];
    synthesize(context.ctx, row.tensor, 1, values);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(stream.integer(i), row.r[i]) << row.tensor << " " << i;
      EXPECT_EQ(stream.unit(i), static_cast<float>(row.r[i]) / 8388608.0f);
      EXPECT_EQ(values[i].bits, row.bits[i]) << row.tensor << " " << i;
    }
  }
}

TEST(SyntheticStream, FirstBitsOfOtherAmplitudes) {
  struct Row {
    const char* tensor;
    uint16_t bits[4];
  };
  const Row rows[] = {{"vision.blocks.31.mlp.w2.weight", {0xbb9a, 0xbcec, 0x3cf3, 0x3ce8}},
                      {"aligner.w1.weight", {0x3c11, 0xbc17, 0xb98a, 0xbb5d}}};
  test::OpContext context;
  for (const Row& row : rows) {
    bf16 values[4];
    synthesize(context.ctx, row.tensor, 1, values);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(values[i].bits, row.bits[i]) << row.tensor << " " << i;
    }
  }
}

// Whole small tensors of the README; the large ones are a slow test.
TEST(SyntheticStream, ChecksOfWholeTensors) {
  const std::pair<const char*, std::pair<size_t, uint64_t>> rows[] = {
      {"vision.blocks.0.norm1.weight", {1024, 0x412ad3f684a43f53U}},
      {"aligner.w2.bias", {5120, 0xfcfce2b557d30035U}}};
  for (const int threads : {1, 3}) {
    test::OpContext context(threads);
    for (const auto& [tensor, expected] : rows) {
      std::vector<bf16> values(expected.first);
      synthesize(context.ctx, tensor, 1, values);
      EXPECT_EQ(fnv(std::as_bytes(std::span(values))), expected.second) << tensor;
    }
  }
}

TEST(Fnv, PublishedValues) {  // FNV-1a, 64 bits
  const auto of = [](std::string_view text) { return fnv(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(of("foobar"), 0x85944171f73967e8U);
  const std::string_view bar = "bar";
  EXPECT_EQ(fnv(std::as_bytes(std::span(bar)), of("foo")), of("foobar"));
}

// The released tower without weights in memory: sizes are the release's.
TEST(SyntheticWeights, TextExcerptOfTheRelease) {
  const Config c = text_excerpt(released(), {.layers = 3, .experts = 16, .vocab = 1000});
  EXPECT_EQ(c.layers, 3);
  EXPECT_EQ(c.experts, 16);
  EXPECT_EQ(c.vocab, 1000);
  EXPECT_EQ(c.hidden, 5120);
  EXPECT_EQ(c.compress_ratios, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_TRUE(c.is_kv_source(0) && c.is_index_source(0));
  EXPECT_EQ(c.kv_source_of(2), 0);
  EXPECT_EQ(c.index_source_of(2), 0);
  EXPECT_LT(c.candidate_source, 0);
  EXPECT_EQ(c.vision.layers, 0);
  EXPECT_EQ(c.dspark.stages, 0);
  EXPECT_TRUE(c.engram.layers.empty());
}

// A text stack of the release's shape, an eighth as wide.
Config small_text(int64_t layers) {
  Config c = text_excerpt(released(), {.layers = layers, .experts = 16, .vocab = 256});
  c.hidden = 640;
  c.heads = 8;
  c.head_dim = 128;
  c.rotary_dim = 32;
  c.q_rank = 160;
  c.o_rank = 128;
  c.o_groups = 4;
  c.ffn_dim = 288;
  c.index_heads = 4;
  c.index_head_dim = 64;
  c.window = 16;
  return c;
}

TEST(SyntheticWeights, CodesAndScales) {
  const Config c = small_text(1);
  test::OpContext context;
  const SyntheticWeights weights(context.ctx, c);
  const LayerWeights& w = weights.weights().layers.at(0);
  // No NaN code, every other code, values of about 1/sqrt(inputs).
  const WeightFp8Block& fp8 = std::get<WeightFp8Block>(w.attn.wq_b.weight.format);
  std::set<int> codes;
  for (int64_t i = 0; i < w.attn.wq_b.weight.outputs * w.attn.wq_b.weight.inputs; ++i) {
    codes.insert(static_cast<int>(fp8.codes[i]));
  }
  EXPECT_EQ(codes.size(), 254u);
  EXPECT_FALSE(codes.contains(0x7f) || codes.contains(0xff));
  for (const Linear* layer : {&w.attn.wq_a, &w.attn.wkv, &w.attn.wo_b, &w.ffn.shared.w2,
                              &w.ffn.experts[7].w1, &w.ffn.experts[7].w2}) {
    const Weight& weight = layer->weight;
    std::vector<float> values(static_cast<size_t>(weight.outputs * weight.inputs));
    dequantize_rows(weight, 0, weight.outputs, values.data());
    double sum = 0;
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    const double rms = std::sqrt(sum / static_cast<double>(values.size()));
    const double wanted = 1 / std::sqrt(static_cast<double>(weight.inputs));
    // Half an octave of rounding, and half of the scales are halved.
    EXPECT_GT(rms, 0.5 * wanted);
    EXPECT_LT(rms, 1.5 * wanted);
    EXPECT_EQ(layer->input, InputRule::e4m3_32);
  }
  ASSERT_EQ(w.attn.wo_a.size(), 4u);
  EXPECT_EQ(w.attn.wo_a[3].input, InputRule::none);
  EXPECT_EQ(std::get<WeightFp8Block>(w.attn.wo_a[1].weight.format).codes -
                std::get<WeightFp8Block>(w.attn.wo_a[0].weight.format).codes,
            128 * 256);
}

// Logits of a prompt and a few decoded tokens; `health` sees every layer's stream.
class Streams : public TraceSink {
 public:
  bool wants(std::string_view name) override {
    return name.starts_with("layers.") && (name.size() == 8 || name.ends_with(".topk"));
  }
  bool tap(std::string_view name, const MutableTensorView& value) override {
    if (name.ends_with(".topk")) {
      const int32_t* picks = value.as<int32_t>();
      experts.insert(picks, picks + value.elements());
      return false;
    }
    double sum = 0;
    for (int64_t i = 0; i < value.elements(); ++i) {
      const double x = static_cast<double>(to_float(value.as<bf16>()[i]));
      sum += x * x;
    }
    rms.push_back(std::sqrt(sum / static_cast<double>(value.elements())));
    return false;
  }

  std::vector<double> rms;  // of the streams behind each layer
  std::set<int32_t> experts;
};

TEST(SyntheticWeights, ActivationsStayHealthy) {
  constexpr int64_t kLayers = 6;
  constexpr int64_t kPrompt = 40;
  const Config c = small_text(kLayers);
  test::OpContext context;
  const SyntheticWeights weights(context.ctx, c);
  const Network network = synthetic_network(c, weights);
  CachePools pools(c, kPrompt + 8);
  SequenceState state(c, pools);
  StepBuffers buffers(c, kPrompt, 1);
  std::vector<int32_t> ids(static_cast<size_t>(kPrompt));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i * 37 % 256);
  }
  for (int step = 0; step < 5; ++step) {
    const std::vector<int32_t> now = step == 0 ? ids : std::vector<int32_t>{100 + step};
    StepPlan plan;
    add_run(plan, state, now, {}, {});
    plan_all_rows(plan, c);
    plan.logit_rows = {static_cast<int32_t>(now.size()) - 1};
    state.prepare(c, plan.rows());
    Streams streams;
    context.ctx.trace.start(&streams, "");
    forward(context.ctx, network, plan, buffers);
    context.ctx.trace.stop();
    commit(c, plan, 0, plan.rows(), buffers, state);
    ASSERT_EQ(streams.rms.size(), static_cast<size_t>(kLayers));
    for (const double rms : streams.rms) {
      EXPECT_GT(rms, 0.05);
      EXPECT_LT(rms, 20);
    }
    // Routing spreads: a prompt reaches nearly every expert, a token some of each layer.
    EXPECT_GE(streams.experts.size(), step == 0 ? 14u : 6u);
    double sum = 0;
    for (int64_t i = 0; i < c.vocab; ++i) {
      const double logit = static_cast<double>(buffers.logits.as<float>()[i]);
      ASSERT_TRUE(std::isfinite(logit));
      sum += logit * logit;
    }
    const double rms = std::sqrt(sum / static_cast<double>(c.vocab));
    EXPECT_GT(rms, 0.1);
    EXPECT_LT(rms, 10);
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
