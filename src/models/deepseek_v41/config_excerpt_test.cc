#include "models/deepseek_v41/config_excerpt.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/deepseek_v41/config.h"
#include "tests/support/edited_model.h"

namespace tessera::deepseek_v41 {
namespace {

using List = std::vector<int64_t>;

io::Json released() {
  return io::read_json_file(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
}

Config excerpt_of(const io::Json& json, const ConfigExcerpt& excerpt) {
  return parse_config(excerpt_config(json, "config.json", excerpt), "excerpt");
}

std::string refusal_of(const io::Json& json, const ConfigExcerpt& excerpt) {
  try {
    excerpt_config(json, "config.json", excerpt);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
  return "no error";
}

ConfigExcerpt layers(List kept) {
  ConfigExcerpt excerpt;
  excerpt.layers = std::move(kept);
  return excerpt;
}

TEST(ConfigExcerpt, BenchModel) {
  ConfigExcerpt excerpt = layers({1, 2, 20, 24});
  excerpt.experts = 96;
  excerpt.engram_vocab = 150000;
  const Config c = excerpt_of(released(), excerpt);
  EXPECT_EQ(c.layers, 4);
  EXPECT_EQ(c.experts, 96);
  EXPECT_EQ(c.hidden, 5120);
  EXPECT_EQ(c.compress_ratios, (List{0, 2, 1, 1}));
  EXPECT_EQ(c.kv_sources, (List{1, 2}));
  EXPECT_EQ(c.index_sources, (List{1, 2, 3}));
  EXPECT_EQ(c.candidate_source, 2);
  EXPECT_EQ(c.engram.layers, (List{0}));
  EXPECT_EQ(c.engram.vocab_size, 150000);
  // Primes of 24 columns, each a little above 150000.
  ASSERT_EQ(c.engram.table_rows.size(), 1U);
  EXPECT_GT(c.engram.table_rows[0], 24 * 150000);
  EXPECT_LT(c.engram.table_rows[0], 24 * 150400);
  EXPECT_EQ(c.dspark.stages, 0);
  EXPECT_TRUE(c.dspark.target_layers.empty());
  EXPECT_EQ(c.vision.layers, 32);
}

TEST(ConfigExcerpt, WhatIsNotNamedStaysAsItIs) {
  const io::Json json = released();
  EXPECT_EQ(io::dump_compact(excerpt_config(json, "config.json", {})), io::dump_compact(json));
  const io::Json kept = excerpt_config(json, "config.json", layers(parse_layer_list("0-39")));
  EXPECT_EQ(io::dump_compact(kept), io::dump_compact(json));
  // The spelling and order of everything else.
  io::Json with_more = json;
  with_more.set("new_key", io::Json::number_spelled("1.50"));
  ConfigExcerpt excerpt;
  excerpt.experts = 8;
  std::string expected = io::dump_compact(with_more);
  const std::string old = "\"n_routed_experts\":384";
  expected.replace(expected.find(old), old.size(), "\"n_routed_experts\":8");
  EXPECT_EQ(io::dump_compact(excerpt_config(with_more, "config.json", excerpt)), expected);
}

// The sums are those of primes: the release's own numbers come out again.
TEST(ConfigExcerpt, EngramRows) {
  ConfigExcerpt excerpt;
  excerpt.engram_vocab = 16'000'000;
  EXPECT_EQ(excerpt_of(released(), excerpt).engram.table_rows, (List{384006168, 384016682}));
  // Layer 14 alone takes the primes that layer 1 had.
  const Config c = excerpt_of(released(), layers({14}));
  EXPECT_EQ(c.engram.layers, (List{0}));
  EXPECT_EQ(c.engram.table_rows, (List{384006168}));
  EXPECT_TRUE(excerpt_of(released(), layers({0, 2, 3})).engram.layers.empty());
}

TEST(ConfigExcerpt, DraftsNeedAllTheirLayers) {
  const Config c = excerpt_of(released(), layers({20, 36, 37, 38, 39}));
  EXPECT_EQ(c.dspark.stages, 3);
  EXPECT_EQ(c.dspark.target_layers, (List{2, 3, 4}));
  EXPECT_EQ(c.compress_ratios, (List{1, 1, 1, 1, 1}));
  const io::Json json = excerpt_config(released(), "c", layers({20, 36, 37, 38, 39}));
  EXPECT_EQ(json.find("text_config")->find("compress_ratios")->items().size(), 8U);
  EXPECT_EQ(excerpt_of(released(), layers({20, 36, 38, 39})).dspark.stages, 0);
}

TEST(ConfigExcerpt, CandidatesNeedTheirSource) {
  EXPECT_EQ(excerpt_of(released(), layers({20, 21})).candidate_source, 0);
  EXPECT_EQ(excerpt_of(released(), layers({0, 2, 3})).candidate_source, -1);
}

TEST(ConfigExcerpt, FlatDialect) {
  const io::Json nested = io::read_json_file(test::tiny_model() + "/config.json");
  const std::pair<const char*, const char*> renamed[] = {
      {"hidden_size", "dim"},
      {"moe_intermediate_size", "moe_inter_dim"},
      {"num_hidden_layers", "n_layers"},
      {"num_nextn_predict_layers", "n_mtp_layers"},
      {"num_attention_heads", "n_heads"},
      {"num_experts_per_tok", "n_activated_experts"},
      {"scoring_func", "score_func"},
      {"routed_scaling_factor", "route_scale"},
      {"qk_rope_head_dim", "rope_head_dim"},
      {"rms_norm_eps", "norm_eps"},
      {"sliding_window", "window_size"},
      {"kv_source_layer_ids", "kv_source_layers"},
      {"index_source_layer_ids", "index_source_layers"},
      {"candidate_source_layer_id", "candidate_source_layer"},
      {"engram_pad_token_id", "engram_pad_id"},
      {"dspark_num_experts_per_tok", "dspark_n_activated_experts"}};
  io::Json flat = io::Json::object();
  for (const io::Json::Member& member : nested.find("text_config")->members()) {
    const auto found = std::find_if(std::begin(renamed), std::end(renamed),
                                    [&](const auto& names) { return member.first == names.first; });
    flat.set(found == std::end(renamed) ? member.first : found->second, member.second);
  }
  const std::pair<const char*, int64_t> numbers[] = {{"original_seq_len", 64},
                                                     {"rope_factor", 4},
                                                     {"beta_fast", 8},
                                                     {"beta_slow", 1},
                                                     {"vision_n_layers", 0},
                                                     {"vision_dim", 60},
                                                     {"vision_n_heads", 3},
                                                     {"vision_inter_dim", 88},
                                                     {"vision_patch_size", 14},
                                                     {"vision_rope_theta", 10},
                                                     {"vision_downsample_ratio", 3},
                                                     {"vision_max_n_token", 40},
                                                     {"vision_min_pixels", 9},
                                                     {"image_token_id", 381}};
  for (const auto& [key, value] : numbers) {
    flat.set(key, io::Json::number(value));
  }
  flat.set("dtype", io::Json::string("fp8"));
  ConfigExcerpt excerpt = layers({1, 4, 5, 6, 7});
  excerpt.experts = 4;
  const Config c = excerpt_of(flat, excerpt);
  EXPECT_EQ(c.layers, 5);
  EXPECT_EQ(c.experts, 4);
  EXPECT_EQ(c.compress_ratios, (List{0, 2, 1, 1, 1}));
  EXPECT_EQ(c.kv_sources, (List{1, 2}));
  EXPECT_EQ(c.index_sources, (List{1, 2, 4}));
  EXPECT_EQ(c.candidate_source, 2);
  EXPECT_EQ(c.engram.layers, (List{0, 1}));
  EXPECT_EQ(c.engram.table_rows, (List{630, 834}));
  EXPECT_EQ(c.dspark.stages, 2);
  EXPECT_EQ(c.dspark.target_layers, (List{2, 3, 4}));
}

TEST(ConfigExcerpt, Refusals) {
  EXPECT_EQ(refusal_of(released(), layers({1, 24})),
            "--keep-layers: layer 24 reads the entries of layer 20, which is not kept; add 20");
  EXPECT_EQ(refusal_of(released(), layers({20, 30})),
            "--keep-layers: layer 30 reads the entries that layer 28 picks, which is not kept; add "
            "28");
  EXPECT_EQ(refusal_of(released(), layers({3})),
            "--keep-layers: layer 3 reads the entries of layer 2, which is not kept; add 2");
  EXPECT_EQ(refusal_of(released(), layers({0, 40})),
            "--keep-layers: there is no layer 40, the model has layers 0 to 39");
  EXPECT_EQ(refusal_of(released(), layers({1, 0})),
            "--keep-layers: 0 stands behind 1, expected ascending layers, each once");
  EXPECT_EQ(refusal_of(released(), layers({1, 1})),
            "--keep-layers: 1 stands behind 1, expected ascending layers, each once");
  ConfigExcerpt experts;
  experts.experts = 5;
  EXPECT_EQ(refusal_of(released(), experts),
            "--experts 5: expected at least 6, which are active for every token");
  ConfigExcerpt engram;
  for (const int64_t size : {int64_t{-1}, int64_t{1}, INT64_MAX}) {
    engram.engram_vocab = size;
    EXPECT_NE(refusal_of(released(), engram).find(": expected 2 to "), std::string::npos);
  }
}

TEST(ConfigExcerpt, LayerLists) {
  EXPECT_EQ(parse_layer_list("1,2,20,24"), (List{1, 2, 20, 24}));
  EXPECT_EQ(parse_layer_list("0-3,7,9-9"), (List{0, 1, 2, 3, 7, 9}));
  for (const char* text : {"", ",", "1,", "-1", "1-", "x", "3-2", "1 2", "1-2-3", "99999999"}) {
    try {
      parse_layer_list(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
      EXPECT_NE(std::string(error.what()).find("--keep-layers '"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
