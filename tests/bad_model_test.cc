// Checkpoints, pictures and requests that are broken, contradictory or hostile. Whatever is wrong,
// the program ends with status 2 and one line that says what, before it has printed anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "image/image.h"
#include "intake/png_encode.h"
#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using io::Json;
using Parts = std::initializer_list<std::string_view>;

class BadModel : public testing::Test {
 protected:
  void SetUp() override { copy_model(tiny_model(), model_); }

  void expect_refused(Parts parts = {}) const {
    expect_error(
        run_program({"run", "--model", model_, "--think", "off", "--max-tokens", "2", "hello"}), 2,
        parts);
  }
  std::string file(std::string_view name) const { return str_cat(model_, "/", name); }
  void write(std::string_view name, std::string_view bytes) const {
    folder_.write(str_cat("model/", name), bytes);
  }
  Json config() const { return io::read_json_file(tiny_model() + "/config.json"); }
  void write(const Json& config) const { write("config.json", io::dump_compact(config)); }

  const TempFolder folder_;
  const std::string model_ = folder_ / "model";
};

std::string little_endian(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
  return bytes;
}

TEST_F(BadModel, TheCopyItselfWorks) {
  EXPECT_EQ(run_program({"run", "--model", model_, "--max-tokens", "2", "hello"}).status, 0);
}

TEST_F(BadModel, MissingFiles) {
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    fs::rename(file(name), folder_ / "aside");
    expect_refused({model_, strcmp(name, "model.safetensors") == 0 ? "*.safetensors" : name});
    fs::rename(folder_ / "aside", file(name));
  }
}

TEST_F(BadModel, FoldersInsteadOfFiles) {
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    fs::rename(file(name), folder_ / "aside");
    fs::create_directory(file(name));
    expect_refused({name, "folder"});
    fs::remove(file(name));
    fs::rename(folder_ / "aside", file(name));
  }
}

TEST_F(BadModel, CutWeights) {
  const std::string weights = read_bytes(file("model.safetensors"));
  uint64_t header = 0;
  std::memcpy(&header, weights.data(), sizeof(header));
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{7}, uint64_t{8}, uint64_t{9}, 8 + header / 2, 8 + header - 1,
        8 + header, uint64_t{weights.size() / 2}, uint64_t{weights.size() - 1}}) {
    SCOPED_TRACE(size);
    write("model.safetensors", std::string_view(weights).substr(0, size));
    expect_refused({"model.safetensors"});
  }
  write("model.safetensors", weights + "x");
  expect_refused({"model.safetensors"});
}

TEST_F(BadModel, HostileHeaders) {
  const std::string data(256, '\0');
  const auto entry = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return str_cat(R"({"a":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)",
                   offsets, "}}");
  };
  const std::vector<std::string> headers = {
      "",
      "{",
      "[]",
      "null",
      R"({"a":5})",
      "{\"\xff\":{}}",
      entry("F32", "[64]", "[0,255]"),
      entry("F32", "[64]", "[0,257]"),
      entry("F32", "[64]", "[-4,252]"),
      entry("F32", "[64]", "[256,0]"),
      entry("F32", "[64]", "[0,1e2]"),
      entry("F32", "[-64]", "[0,256]"),
      entry("F32", "[4294967296,4294967296]", "[0,256]"),
      entry("F32", "[9223372036854775808]", "[0,256]"),
      entry("F32", "[1,1,1,1,1,1,64]", "[0,256]"),
      entry("F33", "[64]", "[0,256]"),
      R"({"a":{"dtype":"F32","shape":[64],"data_offsets":[0,256]},)"
      R"("a":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}})",
      R"({"a":{"dtype":"F32","shape":[64],"data_offsets":[0,256]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"__metadata__":{"a":[]},"a":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}})",
      std::string(100'000, '['),
  };
  for (const std::string& header : headers) {
    SCOPED_TRACE(header.substr(0, 100));
    write("model.safetensors", little_endian(header.size()) + header + data);
    expect_refused({"model.safetensors"});
  }
  for (const uint64_t length :
       {uint64_t{300} << 20, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    SCOPED_TRACE(length);
    write("model.safetensors", little_endian(length) + "{}" + data);
    expect_refused({"model.safetensors"});
  }
}

TEST_F(BadModel, TensorsThatDoNotFitInOneError) {
  EditedWeights edited(tiny_model());
  edited.add("layers.0.attn.extra\n\x1b[31m.weight", DType::bf16, {96});
  edited.remove("layers.1.ffn_norm.weight");
  edited.change("norm.weight", DType::bf16, {95});
  edited.change("head.weight", DType::i32, {384, 96});
  edited.write(model_);
  expect_refused(
      {"4 tensors", "layers.0.attn.extra", "layers.1.ffn_norm.weight is missing",
       "norm.weight in model.safetensors is BF16 [95], expected BF16 [96]",
       "head.weight in model.safetensors is I32 [384,96], which no format of weights has"});
}

TEST_F(BadModel, ShardsAndIndex) {
  const auto index = [](std::string_view shard) {
    return str_cat(R"({"metadata":{},"weight_map":{"norm.weight":")", shard, "\"}}");
  };
  const char* name = "model.safetensors.index.json";
  write(name, index("model-00001-of-00002.safetensors"));
  expect_refused({"model-00001-of-00002.safetensors", "missing"});
  write("model-00001-of-00002.safetensors.incomplete", "");
  expect_refused({"'model-00001-of-00002.safetensors.incomplete'"});
  fs::create_symlink(folder_ / "nowhere", file("model-00001-of-00002.safetensors"));
  expect_refused({"model-00001-of-00002.safetensors", "missing"});
  write(name, index("../model/model.safetensors"));
  expect_refused({name, "'../model/model.safetensors'"});
  write(name, index("model.safetensors"));
  expect_refused({"not in the index"});
  write(name, "{\"weight_map\":");
  expect_refused({name});
  write(name, R"({"weight_map":[]})");
  expect_refused({name});
  fs::remove(file(name));
  fs::remove(file("model-00001-of-00002.safetensors"));
  write("second.safetensors", "");
  expect_refused({"2 *.safetensors", name});
}

TEST_F(BadModel, LfsPointers) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 3952127\n";
  write("model.safetensors", pointer);
  expect_refused({"model.safetensors", "Git LFS pointer"});
  copy_model(tiny_model(), folder_ / "again");
  write("tokenizer.json", pointer);
  expect_refused({"tokenizer.json", "Git LFS pointer"});
}

TEST_F(BadModel, ConfigsThatAreNoConfigs) {
  const std::string good = io::dump_compact(config());
  std::string deep(2000, '[');
  std::string latin = good;
  latin.replace(latin.find("deepseek_v41"), 1, "\xe9");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("{}"),
        std::string(R"({"model_type":"qwen3_vl","text_config":{}})"), deep, latin, good + "{}",
        good.substr(0, good.size() / 2), "{\"text_config\":{}," + good.substr(1),
        std::string("\0\0\0\0", 4)}) {
    SCOPED_TRACE(text.substr(0, 60));
    write("config.json", text);
    expect_refused({"config.json"});
  }
  fs::resize_file(file("config.json"), uintmax_t{1} << 30);  // a hole of zeros
  expect_refused({"config.json"});
}

// One value replaced in an otherwise good config.json.
TEST_F(BadModel, ConfigContradictions) {
  const std::vector<std::pair<const char*, const char*>> changes = {
      {"text_config.hidden_size", "128"},
      {"text_config.hidden_size", "97"},
      {"text_config.hidden_size", "\"96\""},
      {"text_config.hidden_size", "96.5"},
      {"text_config.num_hidden_layers", "0"},
      {"text_config.num_hidden_layers", "9"},
      {"text_config.num_hidden_layers", "1000000"},
      {"text_config.num_attention_heads", "7"},
      {"text_config.head_dim", "48"},
      {"text_config.qk_rope_head_dim", "66"},
      {"text_config.qk_rope_head_dim", "23"},
      {"text_config.o_groups", "4"},
      {"text_config.num_experts_per_tok", "11"},
      {"text_config.n_shared_experts", "2"},
      {"text_config.scoring_func", "\"softmax\""},
      {"text_config.vocab_size", "383"},
      {"text_config.vocab_size", "10"},
      {"text_config.compress_ratios", "[0,0,2]"},
      {"text_config.compress_ratios", "[2,0,2,2,2,1,1,1,0,0]"},
      {"text_config.compress_ratios", "[0,0,2,2,2,1,1,1,1,0]"},
      {"text_config.compress_ratios", "[0,0,0,2,2,1,1,1,0,0]"},
      {"text_config.compress_ratios", "[0,0,-2,2,2,1,1,1,0,0]"},
      {"text_config.kv_source_layer_ids", "[2,5,4]"},
      {"text_config.kv_source_layer_ids", "[2,4,4]"},
      {"text_config.kv_source_layer_ids", "[2,4,5,8]"},
      {"text_config.kv_source_layer_ids", "[0,2,4,5]"},
      {"text_config.kv_source_layer_ids", "[]"},
      {"text_config.index_source_layer_ids", "[4,5,7]"},
      {"text_config.index_source_layer_ids", "[]"},
      {"text_config.candidate_source_layer_id", "6"},
      {"text_config.candidate_source_layer_id", "99"},
      {"text_config.candidate_topk_blocks", "0"},
      {"text_config.hc_mult", "3"},
      {"text_config.engram_layer_ids", "[1]"},
      {"text_config.engram_layer_ids", "[1,8]"},
      {"text_config.engram_num_embeddings", "[630,835]"},
      {"text_config.engram_num_embeddings", "[630]"},
      {"text_config.engram_vocab_size", "98"},
      {"text_config.engram_max_ngram_size", "5"},
      {"text_config.engram_pad_token_id", "384"},
      {"text_config.engram_pad_token_id", "1000000000"},
      {"text_config.engram_compressed_vocab_size", "336"},
      {"text_config.n_routed_experts", "5000"},
      {"text_config.dspark_n_routed_experts", "5000"},
      {"text_config.dspark_target_layer_ids", "[5,6]"},
      {"text_config.num_nextn_predict_layers", "3"},
      {"text_config.rope_scaling.rope_type", "\"linear\""},
      {"text_config.rope_theta", "\"x\""},
      {"text_config.rope_theta", "1e999"},
      {"text_config", "5"},
      {"vision_config", "[]"},
      {"vision_config.num_hidden_layers", "4"},
      {"vision_config.hidden_size", "61"},
      {"vision_config.num_attention_heads", "7"},
      {"vision_config.patch_size", "0"},
      {"vision_config.downsample_ratio", "2"},
      {"vision_config.max_image_tokens", "4"},
      {"image_token_id", "384"},
      {"image_token_id", "-1"},
      {"image_token_id", "null"},
      {"eos_token_id", "384"},
      {"quantization_config.quant_method", "\"awq\""},
      {"quantization_config.weight_block_size", "[128,128]"},
      {"quantization_config.weight_block_size", "[32,64]"},
      {"quantization_config.weight_block_size", "32"},
  };
  for (const auto& [path, value] : changes) {
    SCOPED_TRACE(str_cat(path, " = ", value));
    Json changed = config();
    set_value(changed, path,
              std::string_view(value) == "1e999" ? Json::number_spelled(value)
                                                 : io::parse_json(value, "value"));
    write(changed);
    expect_refused();
  }
  for (const char* path : {"text_config", "text_config.hidden_size", "text_config.compress_ratios",
                           "text_config.engram_layer_ids", "text_config.rms_norm_eps",
                           "image_token_id", "vision_config.patch_size", "vision_config"}) {
    SCOPED_TRACE(str_cat("without ", path));
    Json changed = config();
    remove_value(changed, path);
    write(changed);
    expect_refused();
  }
}

// Values that the network would compute with another meaning than the one stated.
TEST_F(BadModel, ConfigsOfAnotherNetwork) {
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"text_config.hidden_act", "\"gelu\""},
           {"text_config.attention_bias", "true"},
           {"text_config.tie_word_embeddings", "true"},
           {"text_config.num_key_value_heads", "2"},
           {"text_config.topk_method", "\"greedy\""},
           {"text_config.rope_theta", "0"},
           {"text_config.compress_rope_theta", "-1"},
           {"text_config.rope_scaling.factor", "0"},
           {"text_config.rms_norm_eps", "-1"},
           {"quantization_config.scale_fmt", "\"float32\""},
           {"quantization_config.expert_dtype", "\"int4\""}}) {
    SCOPED_TRACE(str_cat(path, " = ", value));
    Json changed = config();
    set_value(changed, path, io::parse_json(value, "value"));
    write(changed);
    expect_refused({std::string_view(path).substr(std::string_view(path).rfind('.') + 1)});
  }
}

TEST_F(BadModel, GenerationConfigs) {
  for (const char* text :
       {"{", "[]", R"({"temperature": "x"})", R"({"temperature": -1})", R"({"top_p": 7})",
        R"({"max_new_tokens": 0})", R"({"default_thinking": "banana"})", "\xff"}) {
    SCOPED_TRACE(text);
    write("generation_config.json", text);
    expect_refused({"generation_config.json"});
  }
  // Absent in the release.
  fs::remove(file("generation_config.json"));
  const int64_t high = prompt_tokens({"run", "--model", model_, "--max-tokens", "1", "hello"});
  // What it says about thinking holds with its effort; 100 has one digit more than 75.
  write("generation_config.json", R"({"default_thinking": "max"})");
  EXPECT_EQ(prompt_tokens({"run", "--model", model_, "--max-tokens", "1", "hello"}), high + 1);
  EXPECT_EQ(
      prompt_tokens({"run", "--model", model_, "--max-tokens", "1", "--think", "high", "hello"}),
      high);
}

TEST_F(BadModel, Tokenizers) {
  const std::string good = read_bytes(file("tokenizer.json"));
  for (const std::string& text :
       {std::string("{}"), std::string("[]"), good.substr(0, good.size() / 2),
        std::string(R"({"model":{"type":"Unigram"}})")}) {
    SCOPED_TRACE(text.substr(0, 40));
    write("tokenizer.json", text);
    expect_refused({"tokenizer.json"});
  }
  // Another model's: more tokens than this vocabulary.
  write("tokenizer.json", read_bytes(kDemo + "/tokenizer.json"));
  expect_refused({"tokenizer.json"});
}

TEST_F(BadModel, NoVisionTower) {
  EditedWeights edited(tiny_model());
  for (const char* prefix : {"vision.", "aligner.", "image_"}) {
    edited.remove_all(prefix);
  }
  edited.write(model_);
  Json text_only = config();
  remove_value(text_only, "vision_config");
  for (const bool has_image_token : {true, false}) {
    if (!has_image_token) {
      remove_value(text_only, "image_token_id");
    }
    write(text_only);
    const ProgramResult text =
        run_program({"run", "--model", model_, "--max-tokens", "2", "hello"});
    EXPECT_EQ(text.status, 0) << text.err;
    expect_error(run_program({"run", "--model", model_, "--image", picture("p003.png"), "hello"}),
                 2, {"no vision tower"});
    // Says so before it opens the picture.
    expect_error(run_program({"run", "--model", model_, "--image", "missing.png", "hello"}), 2,
                 {"no vision tower"});
  }
}

TEST_F(BadModel, PlacesThatAreNoModel) {
  const auto refused = [](const std::string& model, Parts parts) {
    expect_error(run_program({"run", "--model", model, "hello"}), 2, parts);
    expect_error(run_program({"image", "plan", picture("p003.png"), "--model", model}), 2, parts);
  };
  refused(folder_ / "missing", {"missing"});
  refused("./missing", {"./missing"});
  refused(folder_.path(), {folder_.path(), "config.json"});
  refused(std::string(300, 'a'), {"aaa"});
  refused(std::string(5000, 'a'), {"aaa"});
  refused("a/" + std::string(300, 'b'), {"bbb"});
  refused("a\nb", {"a\\nb"});
  fs::create_directory_symlink(folder_ / "loop", folder_ / "loop");
  refused(folder_ / "loop", {"loop"});
  expect_error(run_program({"run", "--model", file("config.json"), "hello"}), 2, {"config.json"});
}

// HF_HOME/hub/models--org--name/{refs/main,snapshots/COMMIT/FILE -> ../../blobs/HASH}
class HuggingFaceCache : public BadModel {
 protected:
  void SetUp() override {
    BadModel::SetUp();
    int blob = 0;
    for (const char* name :
         {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}) {
      fs::create_directories(base_ + "/blobs");
      fs::create_directories(snapshot_);
      const std::string hash = str_cat("blob", blob++);
      fs::rename(file(name), base_ + "/blobs/" + hash);
      fs::create_symlink("../../blobs/" + hash, snapshot_ + "/" + name);
    }
    folder_.write("home/hub/models--org--tiny-model/refs/main", "0123abc");
    options_.environment = {{"HF_HOME", folder_ / "home"}, {"HF_HUB_CACHE", ""}};
  }
  ProgramResult run(const std::string& model = "org/tiny-model") const {
    return run_program({"run", "--model", model, "--max-tokens", "2", "--json", "hello"}, options_);
  }

  const std::string base_ = folder_ / "home/hub/models--org--tiny-model";
  const std::string snapshot_ = base_ + "/snapshots/0123abc";
  ProgramOptions options_;
};

TEST_F(HuggingFaceCache, ResolvesTheMainReference) {
  const ProgramResult result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(text_of(io::parse_json(result.out, "output"), "model"), snapshot_);
  EXPECT_EQ(
      run_program({"image", "plan", picture("p003.png"), "--model", "org/tiny-model"}, options_)
          .status,
      0);
  options_.environment = {{"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", folder_ / "home/hub"}};
  EXPECT_EQ(run().status, 0);
  options_.environment = {{"HF_HOME", ""}, {"HF_HUB_CACHE", ""}, {"HOME", folder_ / "user"}};
  expect_error(run(), 2, {"org/tiny-model", "/user/.cache/huggingface/hub"});
}

TEST_F(HuggingFaceCache, SaysWhatIsMissing) {
  expect_error(run("org/other"), 2, {"org/other", "download"});
  const std::string blob = base_ + "/blobs/blob3";  // the weights
  fs::rename(blob, blob + ".incomplete");
  expect_error(run(), 2, {"'model.safetensors'", "missing", "'blob3.incomplete'"});
  fs::rename(snapshot_, base_ + "/snapshots/4567def");
  expect_error(run(), 2, {"org/tiny-model", "0123abc"});
  fs::resize_file(base_ + "/refs/main", 0);
  expect_error(run(), 2, {"org/tiny-model"});
  folder_.write("home/hub/models--org--tiny-model/refs/main", std::string(10000, 'x'));
  expect_error(run(), 2, {"org/tiny-model"});
}

TEST(BadPicture, FilesThatAreNoPictures) {
  const TempFolder folder;
  const std::string jpeg = read_bytes(picture("p005.jpg"));
  const std::string png = read_bytes(picture("p003.png"));
  const std::string gif = std::string("GIF89a\1\0\1\0\0\0\0;", 14);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"text.png", "this is not a picture\n"},
      {"empty.png", ""},
      {"gif.gif", gif},
      {"gif.png", gif},
      {"cut.jpg", jpeg.substr(0, jpeg.size() / 2)},
      {"cut.png", png.substr(0, png.size() / 2)},
      {"start.jpg", jpeg.substr(0, 3)},
  };
  for (const auto& [name, bytes] : files) {
    const std::string path = folder.write(name, bytes);
    SCOPED_TRACE(name);
    expect_error(run_program({"run", "--image", path, "What is this?"}), 2, {name});
    expect_error(run_program({"image", "plan", path}), 2, {name});
    expect_error(run_program({"trace", "-o", folder / "t.safetensors", "--image", path, "What?"}),
                 2, {name});
    fs::remove(path);
    EXPECT_TRUE(folder.is_empty());
  }
  for (const std::string& path : {folder / "missing.png", folder.path(), std::string("/dev/zero"),
                                  std::string(300, 'a') + ".png", std::string()}) {
    SCOPED_TRACE(path);
    expect_error(run_program({"run", "--image", path, "What is this?"}), 2, {path});
    expect_error(run_program({"image", "plan", path}), 2, {path});
  }
  // The good picture before the bad one changes nothing.
  expect_error(run_program({"run", "--image", picture("p003.png"), "--image",
                            folder / "missing.png", "What is this?"}),
               2, {"missing.png"});
}

TEST(BadPicture, ExtremeSizes) {
  // The header alone decides.
  for (const char* name : {"bad_bomb_png_60000.png", "bad_bomb_jpeg_65500.jpg"}) {
    const std::string path = golden_path(str_cat("image/files/", name));
    expect_error(run_program({"run", "--image", path, "What is this?"}), 2, {name});
  }
  // Fitted into the canvas of the demo model, the picture would be less than a pixel wide.
  const TempFolder folder;
  const std::vector<std::byte> png =
      intake::encode_png(image::Image({.width = 1, .height = 100'000}, {200, 200, 200}));
  const std::string path = folder.write(
      "thin.png", std::string_view(reinterpret_cast<const char*>(png.data()), png.size()));
  expect_error(run_program({"run", "--image", path, "What is this?"}), 2,
               {"thin.png", "1 x 100000", "too narrow"});
  expect_error(run_program({"image", "plan", path}), 2, {"1 x 100000", "too narrow"});
}

TEST(BadRequest, Placeholders) {
  const TempFolder folder;
  const auto ask = [&](std::string_view text) {
    return run_program({"run", "--input", folder.write("case.json", text)});
  };
  expect_error(ask(R"({"prompt": "<｜deepseek_image｜><｜deepseek_image｜>", "images": [")" +
                   picture("p003.png") + R"("]})"),
               2, {"Found 2 image tokens but got 1 images"});
  expect_error(ask(R"({"prompt": "hello", "images": [")" + picture("p003.png") + R"("]})"), 2,
               {"Found 0 image tokens but got 1 images"});
  expect_error(ask(R"({"prompt": ""})"), 2, {"empty"});
}

TEST(BadRequest, InputFiles) {
  const TempFolder folder;
  for (const char* text :
       {"", "{", "[]", "5", "[5]", R"([{"role": "user"}])",
        R"([{"role": "wizard", "content": "x"}])",
        R"([{"role": "user", "content": [{"type": "image_url"}]}])",
        R"({"messages": [], "prompt": 5})",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "no.png"}}]}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": )"
        R"({"url": "http://example.org/a.png"}}]}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": )"
        R"({"url": "data:image/png;base64,AAAA"}}]}])",
        "[{\"role\": \"user\", \"content\": \"\xff\"}]"}) {
    SCOPED_TRACE(text);
    expect_error(run_program({"run", "--input", folder.write("case.json", text)}), 2);
  }
  expect_error(run_program({"run", "--input", folder.write("ask.txt", "<image>no.png</image>x")}),
               2, {"no.png"});
  expect_error(run_program({"run", "--input", folder.path()}), 2, {folder.path(), "folder"});
  expect_error(run_program({"run", "--input", folder / "missing.json"}), 2, {"missing.json"});
}

// Not an error: each ill-formed byte counts as U+FFFD, as in Python.
TEST(BadRequest, TextThatIsNotUtf8) {
  EXPECT_EQ(prompt_tokens({"run", "caf\xe9"}), prompt_tokens({"run", "caf\xef\xbf\xbd"}));
  EXPECT_GT(prompt_tokens({"run", "caf\xe9"}), prompt_tokens({"run", "caf"}));
  const TempFolder folder;
  EXPECT_EQ(prompt_tokens({"run", "--input", folder.write("ask.txt", "\xff\xfe")}),
            prompt_tokens({"run", "\xef\xbf\xbd\xef\xbf\xbd"}));
}

TEST(BadRequest, LongerThanTheContext) {
  expect_error(run_program({"run", "--context", "8", "What is the background colour?"}), 2,
               {"context holds 8", "--context"});
  expect_error(run_program({"run", "--context", "40", "--image", picture("p035.png"), "What?"}), 2,
               {"of pictures", "context holds 40"});
  std::string words;
  for (int i = 0; i < 8000; ++i) {
    words += "carrot tomato banana mushroom corn ";
  }
  const TempFolder folder;
  expect_error(run_program({"run", "--input", folder.write("long.txt", words)}), 2,
               {"context holds 32768"});
}

// Weights that shrink while they are in use: the next step that needs them ends the program.
TEST(VanishingWeights, EndTheProgramWithOneLine) {
  const TempFolder folder;
  const std::string model = folder / "model";
  copy_model(kDemo, model);
  Program program({"run", "--model", model, "--ignore-eos", "--max-tokens", "20000", "Hello"});
  program.wait_for_output(10);
  fs::resize_file(model + "/model.safetensors", 4096);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 3) << "signal " << result.signal;
  EXPECT_TRUE(result.err.starts_with("tessera: ")) << result.err;
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

}  // namespace
}  // namespace tessera::test
