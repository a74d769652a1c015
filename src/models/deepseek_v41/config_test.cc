#include "models/deepseek_v41/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

const char kReleased[] = TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json";

// The same numbers in the flat dialect: the keys of the release's inference/config.json.
const char kFlatReleased[] = R"({
  "vocab_size": 129280, "dim": 5120, "moe_inter_dim": 2304, "n_layers": 40, "n_mtp_layers": 3,
  "n_heads": 64, "n_routed_experts": 384, "n_shared_experts": 1, "n_activated_experts": 6,
  "score_func": "sqrtsoftplus", "route_scale": 1.5, "swiglu_limit": 10.0, "q_lora_rank": 1280,
  "head_dim": 512, "rope_head_dim": 64, "norm_eps": 1e-20, "o_groups": 8, "o_lora_rank": 1024,
  "window_size": 128, "kv_source_layers": [2, 8, 14, 20],
  "index_source_layers": [2, 8, 14, 20, 24, 28, 32, 36], "original_seq_len": 65536,
  "rope_theta": 10000.0, "rope_factor": 16, "beta_fast": 32, "beta_slow": 1, "index_n_heads": 32,
  "index_head_dim": 128, "index_topk": 512, "candidate_source_layer": 20,
  "candidate_topk_blocks": 2048, "candidate_block_size": 8, "hc_mult": 4, "hc_sinkhorn_iters": 20,
  "hc_eps": 1e-06, "engram_layer_ids": [1, 14], "engram_vocab_size": 16000000,
  "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4, "engram_pad_id": 2,
  "engram_compressed_vocab_size": 99092, "engram_n_heads": 8, "engram_head_dim": 256,
  "dtype": "fp8", "expert_dtype": "fp4", "compress_rope_theta": 160000.0,
  "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
  "dspark_block_size": 5, "dspark_noise_token_id": 128799,
  "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256,
  "dspark_n_routed_experts": 128, "dspark_n_activated_experts": 3, "vision_n_layers": 32,
  "vision_dim": 1024, "vision_n_heads": 16, "vision_inter_dim": 2816, "vision_patch_size": 14,
  "vision_downsample_ratio": 3, "vision_max_n_token": 1024, "vision_min_pixels": 295936,
  "vision_max_wh_ratio": null, "vision_rope_theta": 10000.0, "image_token_id": 129264
})";

std::vector<int64_t> released_ratios() {
  std::vector<int64_t> ratios(40, 1);
  std::fill(ratios.begin(), ratios.begin() + 2, 0);
  std::fill(ratios.begin() + 2, ratios.begin() + 20, 2);
  return ratios;
}

// Every value of the release: deepseek_v41 specification 1.2.
void expect_released(const Config& c) {
  EXPECT_EQ(c.vocab, 129280);
  EXPECT_EQ(c.hidden, 5120);
  EXPECT_EQ(c.layers, 40);
  EXPECT_EQ(c.heads, 64);
  EXPECT_EQ(c.head_dim, 512);
  EXPECT_EQ(c.rotary_dim, 64);
  EXPECT_EQ(c.q_rank, 1280);
  EXPECT_EQ(c.o_rank, 1024);
  EXPECT_EQ(c.o_groups, 8);
  EXPECT_EQ(c.window, 128);
  EXPECT_EQ(c.norm_eps, 1e-20);
  EXPECT_EQ(c.ffn_dim, 2304);
  EXPECT_EQ(c.experts, 384);
  EXPECT_EQ(c.active_experts, 6);
  EXPECT_EQ(c.route_scale, 1.5);
  EXPECT_EQ(c.gate_temperature, 1.0);
  EXPECT_TRUE(c.normalise_top_k);
  EXPECT_EQ(c.swiglu_limit, 10.0);
  EXPECT_EQ(c.compress_ratios, released_ratios());
  EXPECT_EQ(c.kv_sources, (std::vector<int64_t>{2, 8, 14, 20}));
  EXPECT_EQ(c.index_sources, (std::vector<int64_t>{2, 8, 14, 20, 24, 28, 32, 36}));
  EXPECT_EQ(c.index_heads, 32);
  EXPECT_EQ(c.index_head_dim, 128);
  EXPECT_EQ(c.index_top_k, 512);
  EXPECT_EQ(c.candidate_source, 20);
  EXPECT_EQ(c.candidate_blocks, 2048);
  EXPECT_EQ(c.candidate_block_size, 8);
  EXPECT_EQ(c.rope_theta, 10000);
  EXPECT_EQ(c.compress_rope_theta, 160000);
  EXPECT_EQ(c.yarn.original_positions, 65536);
  EXPECT_EQ(c.yarn.factor, 16);
  EXPECT_EQ(c.yarn.beta_fast, 32);
  EXPECT_EQ(c.yarn.beta_slow, 1);
  EXPECT_EQ(c.hc_copies, 4);
  EXPECT_EQ(c.hc_iterations, 20);
  EXPECT_EQ(c.hc_eps, 1e-6);
  EXPECT_EQ(c.bos_token, 0);
  EXPECT_EQ(c.eos_token, 1);
  EXPECT_EQ(c.image_token, 129264);
  EXPECT_EQ(c.quantization.projections, (MatrixFormat{StoredFormat::fp8_e8m0, 32}));
  EXPECT_EQ(c.quantization.experts, MatrixFormat{StoredFormat::mxfp4});
  EXPECT_EQ(c.hc_mixes(), 24);
}

void expect_released_extras(const Config& c) {
  EXPECT_EQ(c.engram.layers, (std::vector<int64_t>{1, 14}));
  EXPECT_EQ(c.engram.table_rows, (std::vector<int64_t>{384006168, 384016682}));
  EXPECT_EQ(c.engram.max_ngram, 4);
  EXPECT_EQ(c.engram.vocab_size, 16000000);
  EXPECT_EQ(c.engram.heads, 8);
  EXPECT_EQ(c.engram.head_dim, 256);
  EXPECT_EQ(c.engram.pad_token, 2);
  EXPECT_EQ(c.engram.classes, 99092);
  EXPECT_EQ(c.engram.columns(), 24);
  EXPECT_EQ(c.dspark.stages, 3);
  EXPECT_EQ(c.dspark.block_size, 5);
  EXPECT_EQ(c.dspark.noise_token, 128799);
  EXPECT_EQ(c.dspark.target_layers, (std::vector<int64_t>{37, 38, 39}));
  EXPECT_EQ(c.dspark.markov_rank, 256);
  EXPECT_EQ(c.dspark.experts, 128);
  EXPECT_EQ(c.dspark.active_experts, 3);
  EXPECT_EQ(c.vision.layers, 32);
  EXPECT_EQ(c.vision.hidden, 1024);
  EXPECT_EQ(c.vision.heads, 16);
  EXPECT_EQ(c.vision.ffn_dim, 2816);
  EXPECT_EQ(c.vision.patch_px, 14);
  EXPECT_EQ(c.vision.downsample, 3);
  EXPECT_EQ(c.vision.max_tokens, 1024);
  EXPECT_EQ(c.vision.min_pixels, 295936);
  EXPECT_EQ(c.vision.max_wh_ratio, std::nullopt);
  EXPECT_EQ(c.vision.rope_theta, 10000);
  EXPECT_EQ(c.vision.head_dim(), 64);
  EXPECT_EQ(c.vision.patch_width(), 588);
}

TEST(Config, ReleasedValues) {
  std::vector<std::string> unread;
  const Config c = parse_config(io::read_json_file(kReleased), "config.json", &unread);
  expect_released(c);
  expect_released_extras(c);
  EXPECT_EQ(c.max_positions, 1048576);
  EXPECT_TRUE(unread.empty()) << unread.front();
}

TEST(Config, FlatDialectHasTheSameValues) {
  std::vector<std::string> unread;
  const Config c = parse_config(io::parse_json(kFlatReleased, "flat"), "flat", &unread);
  expect_released(c);
  expect_released_extras(c);
  EXPECT_EQ(c.max_positions, 0);  // the flat dialect does not state it
  EXPECT_TRUE(unread.empty()) << unread.front();
}

// Roles of the layers: deepseek_v41 specification 1.4.
TEST(Config, RolesOfLayers) {
  const Config c = read_config(kReleased);
  EXPECT_TRUE(c.is_kv_source(8));
  EXPECT_FALSE(c.is_kv_source(24));
  EXPECT_TRUE(c.is_index_source(24));
  EXPECT_FALSE(c.is_index_source(25));
  EXPECT_EQ(c.kv_source_of(2), 0);
  EXPECT_EQ(c.kv_source_of(13), 1);
  EXPECT_EQ(c.kv_source_of(39), 3);
  EXPECT_EQ(c.index_source_of(19), 14);
  EXPECT_EQ(c.index_source_of(27), 24);
  EXPECT_EQ(c.index_source_of(39), 36);
  EXPECT_EQ(c.engram_index(14), 1);
  EXPECT_EQ(c.engram_index(2), -1);
}

TEST(Config, UnknownKeysAreReported) {
  Json json = io::read_json_file(kReleased);
  json.set("rope_kind", Json::string("none"));
  json.set("transformers_version", Json::string("5.0"));  // known to be of no meaning
  std::vector<std::string> unread;
  Json text = *json.find("text_config");
  text.set("head_count", Json::number(int64_t{1}));
  json.set("text_config", text);
  parse_config(json, "c.json", &unread);
  EXPECT_EQ(unread,
            (std::vector<std::string>{"c.json: rope_kind", "c.json: text_config: head_count"}));
}

TEST(Config, RatiosOfDraftStagesMayBeMissing) {
  Json json = io::read_json_file(kReleased);
  Json text = *json.find("text_config");
  Json ratios = *text.find("compress_ratios");
  ASSERT_EQ(ratios.items().size(), 43u);
  ratios.items().resize(40);
  text.set("compress_ratios", ratios);
  json.set("text_config", text);
  EXPECT_EQ(parse_config(json, "c.json").compress_ratios, released_ratios());
}

// One change of the released file, and what the message must say.
struct Fault {
  const char* name;
  const char* section;  // "", "text_config", ...
  const char* key;
  const char* value;  // JSON; nullptr: the key is removed
  std::vector<const char*> says;
  ErrorCode code = ErrorCode::bad_file;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"MissingKey", "text_config", "hc_mult", nullptr, {"text_config", "hc_mult", "missing"}},
      {"WrongType", "text_config", "head_dim", "\"512\"", {"head_dim", "integer", "512"}},
      {"FractionForInteger", "text_config", "num_hidden_layers", "40.5", {"num_hidden_layers"}},
      {"NegativeSize", "text_config", "hidden_size", "-5120", {"hidden_size", "-5120"}},
      {"HugeSize", "text_config", "vocab_size", "9223372036854775807", {"vocab_size"}},
      {"TextIsNoObject", "", "text_config", "[]", {"text_config"}},
      {"OtherModel",
       "",
       "model_type",
       "\"qwen3_vl\"",
       {"model_type", "qwen3_vl", "deepseek_v41"},
       ErrorCode::unsupported},
      {"OtherScore",
       "text_config",
       "scoring_func",
       "\"softmax\"",
       {"scoring_func", "softmax"},
       ErrorCode::unsupported},
      {"OtherQuantisation",
       "quantization_config",
       "quant_method",
       "\"awq\"",
       {"quant_method", "awq", "fp8"},
       ErrorCode::unsupported},
      {"TwoSharedExperts", "text_config", "n_shared_experts", "2", {"n_shared_experts", "1"}},
      {"UnevenTiles",
       "quantization_config",
       "weight_block_size",
       "[32, 64]",
       {"weight_block_size"}},
      {"ShortRatios",
       "text_config",
       "compress_ratios",
       "[0, 0, 2]",
       {"compress_ratios", "3", "40"}},
      {"DraftStageWithRatio", "text_config", "num_hidden_layers", "39", {"draft", "ratio"}},
      {"SourceBehindTheEnd",
       "text_config",
       "kv_source_layer_ids",
       "[2, 8, 14, 20, 40]",
       {"source layer", "last layer"}},
      {"SourcesNotAscending",
       "text_config",
       "index_source_layer_ids",
       "[2, 14, 8, 20]",
       {"ascending"}},
      {"SourceRepeated", "text_config", "kv_source_layer_ids", "[2, 2, 8, 14, 20]", {"repeats"}},
      {"SourceOfRatioZero",
       "text_config",
       "kv_source_layer_ids",
       "[1, 2, 8, 14, 20]",
       {"layer 1", "ratio 0"}},
      {"KvSourceWithoutIndex",
       "text_config",
       "index_source_layer_ids",
       "[2, 8, 20]",
       {"layer 14", "index source"}},
      {"ReaderBeforeItsSource",
       "text_config",
       "kv_source_layer_ids",
       "[8, 14, 20]",
       {"layer 2", "no kv source"}},
      {"ReaderOfOtherRatio",
       "text_config",
       "kv_source_layer_ids",
       "[2, 8, 14]",
       {"layer 20", "ratio 1", "source 14", "2"}},
      {"CandidatesFromNoSource",
       "text_config",
       "candidate_source_layer_id",
       "21",
       {"candidate source layer 21"}},
      {"NoCandidateBlocks", "text_config", "candidate_topk_blocks", "0", {"candidate_topk_blocks"}},
      {"OddHeadWidth", "text_config", "head_dim", "500", {"head_dim", "500", "32"}},
      {"HeadsAndGroups", "text_config", "num_attention_heads", "60", {"heads", "60", "8"}},
      {"RotaryWiderThanHead", "text_config", "qk_rope_head_dim", "256", {"rotary", "256"}},
      {"MoreActiveThanExperts", "text_config", "n_routed_experts", "5", {"active experts"}},
      {"EngramListsDiffer",
       "text_config",
       "engram_num_embeddings",
       "[384006168]",
       {"engram_layer_ids", "engram_num_embeddings"}},
      {"EngramBehindTheEnd", "text_config", "engram_layer_ids", "[1, 40]", {"engram layer 40"}},
      {"ImageTokenOutside", "", "image_token_id", "129280", {"image_token_id", "129280"}},
      {"ImageTokenMissing", "", "image_token_id", nullptr, {"image_token_id"}},
      {"EndTokenOutside", "", "eos_token_id", "129280", {"eos_token_id"}},
      {"VisionHeads", "vision_config", "num_attention_heads", "15", {"vision hidden", "15"}},
      {"VisionHeadWidth", "vision_config", "num_attention_heads", "512", {"vision head", "2"}},
  };
  return all;
}

class ConfigFault : public testing::TestWithParam<size_t> {
 protected:
  const Fault& fault() const { return faults()[GetParam()]; }
};

Json without(const Json& object, std::string_view key) {
  std::vector<Json::Member> members;
  for (const Json::Member& member : object.members()) {
    if (member.first != key) {
      members.push_back(member);
    }
  }
  return Json::object(std::move(members));
}

Json changed(const Json& object, const Fault& fault) {
  if (fault.value == nullptr) {
    return without(object, fault.key);
  }
  Json out = object;
  out.set(fault.key, io::parse_json(fault.value, "value"));
  return out;
}

TEST_P(ConfigFault, IsNamed) {
  Json json = io::read_json_file(kReleased);
  if (std::string_view(fault().section).empty()) {
    json = changed(json, fault());
  } else {
    json.set(fault().section, changed(*json.find(fault().section), fault()));
  }
  try {
    parse_config(json, "some/config.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), fault().code) << message;
    EXPECT_EQ(message.rfind("some/config.json", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const char* piece : fault().says) {
      EXPECT_NE(message.find(piece), std::string::npos) << piece << " is not in: " << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Released, ConfigFault, testing::Range(size_t{0}, faults().size()),
                         [](const testing::TestParamInfo<size_t>& fault) {
                           return std::string(faults()[fault.param].name);
                         });

TEST(Config, NeitherDialect) {
  for (const char* text : {"{}", "[]", "{\"model_type\": \"deepseek_v41\"}"}) {
    EXPECT_THROW(parse_config(io::parse_json(text, "c"), "c"), Error) << text;
  }
}

TEST(Config, FlatDialectOfOtherDtypes) {
  Json json = io::parse_json(kFlatReleased, "flat");
  json.set("dtype", Json::string("bf16"));
  EXPECT_EQ(parse_config(json, "flat").quantization.projections, MatrixFormat{StoredFormat::bf16});
  EXPECT_EQ(parse_config(json, "flat").quantization.experts, MatrixFormat{StoredFormat::mxfp4});
  json.set("expert_dtype", Json::string("bf16"));
  EXPECT_EQ(parse_config(json, "flat").quantization.experts, MatrixFormat{StoredFormat::bf16});
  json.set("dtype", Json::string("int8"));
  try {
    parse_config(json, "flat");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("dtype 'int8'"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
