#include "models/deepseek_v41/config.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "io/config_view.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxExperts = 4096;  // bounds the findings about a config.json that does not fit
constexpr int64_t kMaxRows = int64_t{1} << 40;

[[noreturn]] void contradiction(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::bad_file, str_cat(where, ": ", what));
}

void require(bool condition, const std::string& where, const std::string& what) {
  if (!condition) {
    contradiction(where, what);
  }
}

// A key that may be absent must have this value: the network computes nothing else.
void require_text(const io::ConfigView& v, std::string_view key, std::string_view value) {
  const std::string found = v.text_or(key, value);
  if (found != value) {
    throw Error(ErrorCode::unsupported,
                str_cat(v.where(), ": ", key, " is '", found, "', expected '", value, "'"));
  }
}

void require_flag(const io::ConfigView& v, std::string_view key, bool value) {
  if (v.boolean_or(key, value) != value) {
    throw Error(ErrorCode::unsupported, str_cat(v.where(), ": ", key, " must be ", value));
  }
}

double positive(const io::ConfigView& v, std::string_view key) {
  const double value = v.number(key);
  require(value > 0, v.where(), str_cat(key, " is ", value, ", expected a positive number"));
  return value;
}

// Key names of the two dialects; everything else about them is equal.
struct Names {
  const char *hidden, *ffn_dim, *layers, *stages, *heads, *active, *score, *route_scale, *rotary,
      *eps, *window, *kv_sources, *index_sources, *yarn_positions, *candidate_source, *engram_pad,
      *dspark_active;
};
constexpr Names kNested = {.hidden = "hidden_size",
                           .ffn_dim = "moe_intermediate_size",
                           .layers = "num_hidden_layers",
                           .stages = "num_nextn_predict_layers",
                           .heads = "num_attention_heads",
                           .active = "num_experts_per_tok",
                           .score = "scoring_func",
                           .route_scale = "routed_scaling_factor",
                           .rotary = "qk_rope_head_dim",
                           .eps = "rms_norm_eps",
                           .window = "sliding_window",
                           .kv_sources = "kv_source_layer_ids",
                           .index_sources = "index_source_layer_ids",
                           .yarn_positions = "original_max_position_embeddings",
                           .candidate_source = "candidate_source_layer_id",
                           .engram_pad = "engram_pad_token_id",
                           .dspark_active = "dspark_num_experts_per_tok"};
constexpr Names kFlat = {.hidden = "dim",
                         .ffn_dim = "moe_inter_dim",
                         .layers = "n_layers",
                         .stages = "n_mtp_layers",
                         .heads = "n_heads",
                         .active = "n_activated_experts",
                         .score = "score_func",
                         .route_scale = "route_scale",
                         .rotary = "rope_head_dim",
                         .eps = "norm_eps",
                         .window = "window_size",
                         .kv_sources = "kv_source_layers",
                         .index_sources = "index_source_layers",
                         .yarn_positions = "original_seq_len",
                         .candidate_source = "candidate_source_layer",
                         .engram_pad = "engram_pad_id",
                         .dspark_active = "dspark_n_activated_experts"};

void read_attention(const io::ConfigView& v, const Names& n, Config& c) {
  c.heads = v.integer(n.heads, 1, kMaxSize);
  c.head_dim = v.integer("head_dim", 1, kMaxSize);
  c.rotary_dim = v.integer(n.rotary, 2, kMaxSize);
  c.q_rank = v.integer("q_lora_rank", 1, kMaxSize);
  c.o_rank = v.integer("o_lora_rank", 1, kMaxSize);
  c.o_groups = v.integer("o_groups", 1, kMaxSize);
  c.window = v.integer(n.window, 1, kMaxSize);
  c.compress_ratios = v.integers("compress_ratios", 0, 8);
  c.kv_sources = v.integers(n.kv_sources, 0, kMaxLayers);
  c.index_sources = v.integers(n.index_sources, 0, kMaxLayers);
  c.index_heads = v.integer("index_n_heads", 1, kMaxSize);
  c.index_head_dim = v.integer("index_head_dim", 1, kMaxSize);
  c.index_top_k = v.integer("index_topk", 1, kMaxSize);
  c.candidate_source = v.integer(n.candidate_source, -kMaxLayers, kMaxLayers);
  c.candidate_blocks = v.integer("candidate_topk_blocks", 0, kMaxSize);
  c.candidate_block_size = v.integer("candidate_block_size", 1, kMaxSize);
  c.rope_theta = positive(v, "rope_theta");
  c.compress_rope_theta = positive(v, "compress_rope_theta");
}

void read_moe(const io::ConfigView& v, const Names& n, Config& c) {
  c.ffn_dim = v.integer(n.ffn_dim, 1, kMaxSize);
  c.experts = v.integer("n_routed_experts", 1, kMaxExperts);
  c.active_experts = v.integer(n.active, 1, 64);
  c.route_scale = v.number(n.route_scale);
  c.gate_temperature = v.has("gate_temp") ? positive(v, "gate_temp") : 1.0;
  c.normalise_top_k = v.boolean_or("norm_topk_prob", true);
  c.swiglu_limit = v.number("swiglu_limit");
  require(v.integer("n_shared_experts", 0, kMaxSize) == 1, v.where(), "n_shared_experts must be 1");
  const std::string score = v.text(n.score);
  if (score != "sqrtsoftplus") {
    throw Error(ErrorCode::unsupported,
                str_cat(v.where(), ": ", n.score, " is '", score, "', expected 'sqrtsoftplus'"));
  }
}

void read_extras(const io::ConfigView& v, const Names& n, Config& c) {
  c.hc_copies = v.integer("hc_mult", 1, 8);
  c.hc_iterations = v.integer("hc_sinkhorn_iters", 1, 1000);
  c.hc_eps = positive(v, "hc_eps");
  EngramConfig& e = c.engram;
  e.layers = v.integers("engram_layer_ids", 0, kMaxLayers);
  e.table_rows = v.integers("engram_num_embeddings", 1, kMaxRows);
  e.max_ngram = v.integer("engram_max_ngram_size", 2, 8);
  e.vocab_size = v.integer("engram_vocab_size", 2, kMaxRows);
  e.heads = v.integer("engram_n_heads", 1, 1024);
  e.head_dim = v.integer("engram_head_dim", 1, kMaxSize);
  e.pad_token = v.integer(n.engram_pad, 0, kMaxRows);
  e.classes = v.integer("engram_compressed_vocab_size", 1, kMaxRows);
  DsparkConfig& d = c.dspark;
  d.stages = v.integer(n.stages, 0, 64);
  d.block_size = v.integer("dspark_block_size", 0, 1024);
  d.noise_token = v.integer("dspark_noise_token_id", 0, kMaxRows);
  d.target_layers = v.integers("dspark_target_layer_ids", 0, kMaxLayers);
  d.markov_rank = v.integer("dspark_markov_rank", 0, kMaxSize);
  d.experts = v.integer("dspark_n_routed_experts", 0, kMaxExperts);
  d.active_experts = v.integer(n.dspark_active, 0, 64);
}

void read_text(const io::ConfigView& v, const Names& n, Config& c) {
  c.vocab = v.integer("vocab_size", 1, kMaxSize);
  c.hidden = v.integer(n.hidden, 1, kMaxSize);
  c.layers = v.integer(n.layers, 1, kMaxLayers);
  c.norm_eps = positive(v, n.eps);
  read_attention(v, n, c);
  read_moe(v, n, c);
  read_extras(v, n, c);
}

void read_yarn(const io::ConfigView& v, const Names& n, const char* factor, Config& c) {
  c.yarn.original_positions = v.integer(n.yarn_positions, 0, kMaxRows);
  c.yarn.factor = positive(v, factor);
  c.yarn.beta_fast = positive(v, "beta_fast");
  c.yarn.beta_slow = positive(v, "beta_slow");
}

// prefix: "" in the nested dialect's vision_config, "vision_" in the flat one.
void read_vision(const io::ConfigView& v, bool is_flat, Config& c) {
  const auto key = [&](const char* nested, const char* flat) { return is_flat ? flat : nested; };
  VisionConfig& o = c.vision;
  o.layers = v.integer(key("num_hidden_layers", "vision_n_layers"), 0, kMaxLayers);
  o.hidden = v.integer(key("hidden_size", "vision_dim"), 1, kMaxSize);
  o.heads = v.integer(key("num_attention_heads", "vision_n_heads"), 1, kMaxSize);
  o.ffn_dim = v.integer(key("intermediate_size", "vision_inter_dim"), 1, kMaxSize);
  o.patch_px = v.integer(key("patch_size", "vision_patch_size"), 1, 1024);
  o.rope_theta = positive(v, key("rope_theta", "vision_rope_theta"));
  o.downsample = v.integer(key("downsample_ratio", "vision_downsample_ratio"), 1, 64);
  o.max_tokens = v.integer(key("max_image_tokens", "vision_max_n_token"), 5, kMaxSize);
  o.min_pixels = v.integer(key("min_pixels", "vision_min_pixels"), 0, kMaxRows);
  const char* ratio = key("max_wh_ratio", "vision_max_wh_ratio");
  if (v.has(ratio)) {
    o.max_wh_ratio = v.integer(ratio, 1, kMaxSize);
  } else {
    v.ignore(ratio);
  }
}

Config parse_nested(const io::ConfigView& top, std::vector<std::string>* unread) {
  const std::optional<io::ConfigView> text = top.child("text_config");
  require(text.has_value(), top.where(), "text_config is not an object");
  Config c;
  read_text(*text, kNested, c);
  if (const auto yarn = text->child("rope_scaling")) {
    require(yarn->text_or("rope_type", "yarn") == "yarn", yarn->where(),
            "rope_type must be 'yarn'");
    read_yarn(*yarn, kNested, "factor", c);
  }
  c.max_positions = text->integer_or("max_position_embeddings", 0, kMaxRows, 0);
  require_text(*text, "hidden_act", "silu");
  require_text(*text, "topk_method", "noaux_tc");
  require_flag(*text, "attention_bias", false);
  require_flag(*text, "tie_word_embeddings", false);
  require(text->integer_or("num_key_value_heads", 0, kMaxSize, 1) == 1, text->where(),
          "num_key_value_heads must be 1");
  for (const char* key : {"model_type", "attention_dropout", "initializer_range", "use_cache"}) {
    text->ignore(key);
  }
  if (const auto vision = top.child("vision_config")) {
    vision->ignore("model_type");
    read_vision(*vision, false, c);
  }
  c.bos_token = top.integer_or("bos_token_id", 0, kMaxSize, 0);
  c.eos_token = top.integer_or("eos_token_id", 0, kMaxSize, 1);
  c.image_token = c.vision.layers > 0 ? top.integer("image_token_id", 0, kMaxSize)
                                      : top.integer_or("image_token_id", -1, kMaxSize, -1);
  if (const auto quantization = top.child("quantization_config")) {
    c.quantization = read_quantization(*quantization);
  }
  for (const char* key : {"architectures", "model_type", "dtype", "pad_token_id",
                          "transformers_version", "auto_map"}) {
    top.ignore(key);
  }
  if (unread != nullptr) {
    for (const io::ConfigView* view : {&top, &*text}) {
      for (const std::string& key : view->unread_keys()) {
        unread->push_back(str_cat(view->where(), ": ", key));
      }
    }
  }
  return c;
}

// The native dialect knows the release's FP8 and what its converter makes of the experts, and bf16.
Quantization read_flat_quantization(const io::ConfigView& v) {
  const std::string dtype = v.text("dtype");
  const std::string experts = v.text_or("expert_dtype", dtype == "bf16" ? "bf16" : "fp4");
  require_text(v, "scale_fmt", "ue8m0");
  if ((dtype != "fp8" && dtype != "bf16") || (experts != "fp4" && experts != dtype)) {
    throw Error(ErrorCode::unsupported,
                str_cat(v.where(), ": dtype '", dtype, "' with expert_dtype '", experts,
                        "', expected 'fp8' with 'fp4' or 'fp8', or 'bf16'"));
  }
  Quantization q;
  q.projections = {dtype == "fp8" ? StoredFormat::fp8_e8m0 : StoredFormat::bf16};
  q.experts = experts == "fp4" ? MatrixFormat{StoredFormat::mxfp4} : *q.projections;
  q.draft_experts = q.experts;
  return q;
}

Config parse_flat(const io::ConfigView& v, std::vector<std::string>* unread) {
  Config c;
  read_text(v, kFlat, c);
  read_yarn(v, kFlat, "rope_factor", c);
  read_vision(v, true, c);
  c.image_token = v.integer("image_token_id", 0, kMaxSize);
  c.quantization = read_flat_quantization(v);
  for (const char* key : {"max_batch_size", "max_seq_len", "temperature"}) {
    v.ignore(key);
  }
  if (unread != nullptr) {
    for (const std::string& key : v.unread_keys()) {
      unread->push_back(str_cat(v.where(), ": ", key));
    }
  }
  return c;
}

// Ratios are given per layer, draft stages included or not.
void complete_ratios(const std::string& where, Config& c) {
  require(static_cast<int64_t>(c.compress_ratios.size()) >= c.layers, where,
          str_cat("compress_ratios has ", c.compress_ratios.size(), " entries, expected at least ",
                  c.layers));
  for (size_t i = static_cast<size_t>(c.layers); i < c.compress_ratios.size(); ++i) {
    require(c.compress_ratios[i] == 0, where, "compress_ratios of draft stages must be 0");
  }
  c.compress_ratios.resize(static_cast<size_t>(c.layers));
}

void check_sources(const std::string& where, const Config& c) {
  for (const std::vector<int64_t>* list : {&c.kv_sources, &c.index_sources}) {
    require(std::is_sorted(list->begin(), list->end()) &&
                std::adjacent_find(list->begin(), list->end()) == list->end(),
            where, "source layer lists must be ascending without repeats");
    require(list->empty() || list->back() < c.layers, where,
            "a source layer lies behind the last layer");
  }
  for (const int64_t source : c.kv_sources) {
    require(c.ratio(source) > 0, where, str_cat("kv source layer ", source, " has ratio 0"));
    require(c.is_index_source(source), where,
            str_cat("kv source layer ", source, " is no index source"));
  }
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    if (c.ratio(layer) == 0) {
      continue;
    }
    require(!c.kv_sources.empty() && c.kv_sources.front() <= layer, where,
            str_cat("layer ", layer, " has ratio ", c.ratio(layer), " but no kv source before it"));
    const int64_t source = c.kv_sources[static_cast<size_t>(c.kv_source_of(layer))];
    require(c.ratio(source) == c.ratio(layer), where,
            str_cat("layer ", layer, " has ratio ", c.ratio(layer), ", its kv source ", source,
                    " has ", c.ratio(source)));
    require(c.index_source_of(layer) >= source, where,
            str_cat("layer ", layer, " uses an index list made before its kv source ", source));
  }
  if (c.candidate_source >= 0) {
    require(c.is_kv_source(c.candidate_source), where,
            str_cat("candidate source layer ", c.candidate_source, " is no kv source"));
    require(c.candidate_blocks > 0, where, "candidate_topk_blocks must be positive");
  }
}

void check_sizes(const std::string& where, const Config& c) {
  const auto multiple = [&](const char* name, int64_t value, int64_t of) {
    require(value % of == 0, where, str_cat(name, " is ", value, ", expected a multiple of ", of));
  };
  multiple("head_dim", c.head_dim, 32);
  multiple("index_head_dim", c.index_head_dim, 32);
  multiple("hidden size", c.hidden, 32);
  multiple("expert width", c.ffn_dim, 32);
  multiple("q_lora_rank", c.q_rank, 32);
  multiple("o_lora_rank", c.o_rank, 32);
  multiple("number of heads", c.heads, c.o_groups);
  require(c.rotary_dim % 2 == 0 && c.rotary_dim <= c.head_dim && c.rotary_dim <= c.index_head_dim,
          where, str_cat("rotary size ", c.rotary_dim, " does not fit the heads"));
  require(c.active_experts <= c.experts, where, "more active experts than experts");
  const EngramConfig& e = c.engram;
  require(e.layers.size() == e.table_rows.size(), where,
          "engram_layer_ids and engram_num_embeddings differ in length");
  for (const int64_t layer : e.layers) {
    require(layer < c.layers, where,
            str_cat("engram layer ", layer, " lies behind the last layer"));
  }
  if (!e.layers.empty()) {
    multiple("engram_head_dim", e.head_dim, 32);
    require(
        e.pad_token < c.vocab, where,
        str_cat("engram_pad_token_id ", e.pad_token, " is outside the vocabulary of ", c.vocab));
  }
  if (c.vision.layers > 0) {
    multiple("vision hidden size", c.vision.hidden, c.vision.heads);
    multiple("vision head size", c.vision.head_dim(), 4);
    require(c.image_token >= 0 && c.image_token < c.vocab, where,
            str_cat("image_token_id ", c.image_token, " is outside the vocabulary of ", c.vocab));
  }
  require(c.eos_token < c.vocab, where, "eos_token_id is outside the vocabulary");
}

}  // namespace

int64_t Config::kv_source_of(int64_t layer) const {
  return std::upper_bound(kv_sources.begin(), kv_sources.end(), layer) - kv_sources.begin() - 1;
}

int64_t Config::index_source_of(int64_t layer) const {
  const auto after = std::upper_bound(index_sources.begin(), index_sources.end(), layer);
  return after == index_sources.begin() ? -1 : *(after - 1);
}

bool Config::is_kv_source(int64_t layer) const {
  return std::binary_search(kv_sources.begin(), kv_sources.end(), layer);
}

bool Config::is_index_source(int64_t layer) const {
  return std::binary_search(index_sources.begin(), index_sources.end(), layer);
}

int64_t Config::engram_index(int64_t layer) const {
  const auto found = std::find(engram.layers.begin(), engram.layers.end(), layer);
  return found == engram.layers.end() ? -1 : found - engram.layers.begin();
}

Config parse_config(const io::Json& json, const std::string& name,
                    std::vector<std::string>* unread) {
  require(json.is_object(), name, "expected a JSON object");
  const io::ConfigView top(json, name);
  Config c;
  if (top.has("text_config")) {
    const std::string type = top.text_or("model_type", "deepseek_v41");
    if (type != "deepseek_v41") {
      throw Error(ErrorCode::unsupported,
                  str_cat(name, ": model_type is '", type, "', expected 'deepseek_v41'"));
    }
    c = parse_nested(top, unread);
  } else if (top.has("dim")) {
    c = parse_flat(top, unread);
  } else {
    throw Error(ErrorCode::unsupported,
                str_cat(name,
                        ": neither 'text_config' nor 'dim' found, so this is no DeepSeek-V4.1 "
                        "configuration"));
  }
  complete_ratios(name, c);
  check_sources(name, c);
  check_sizes(name, c);
  return c;
}

Config read_config(const std::string& path) {
  std::vector<std::string> unread;
  Config config = parse_config(io::read_json_file(path), path, &unread);
  for (const std::string& key : unread) {
    log_line(LogLevel::info, str_cat(key, ": key not known, ignored"));
  }
  return config;
}

}  // namespace tessera::deepseek_v41
