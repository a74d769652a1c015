// tessera inspect: numbers of known checkpoints, the same refusals as loading, checksums, and the
// released layout (sparse files of 510 GB) in seconds and little memory.
// Numbers of the release: checkpoint_v41 specification sections 6 and 7.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "io/sha256.h"
#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/released_layout.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/xz.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using io::Json;
using Kind = Json::Kind;

struct Sum {
  int64_t tensors = 0;
  int64_t bytes = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};
void PrintTo(const Sum& sum, std::ostream* out) {
  *out << sum.tensors << " tensors, " << sum.bytes << " bytes";
}
using Sums = std::map<std::string, Sum>;

Sums sums_of(const Json& json, std::string_view key) {
  Sums sums;
  for (const auto& [name, entry] : json.find(key)->members()) {
    sums[name] = {integer_of(entry, "tensors"), integer_of(entry, "bytes")};
  }
  return sums;
}

Sum total_of(const Sums& sums) {
  Sum total;
  for (const auto& [name, sum] : sums) {
    total.tensors += sum.tensors;
    total.bytes += sum.bytes;
  }
  return total;
}

std::string last_line(const std::string& text) {
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

// What holds of every report.
void expect_consistent(const Json& json) {
  const Sum all = {integer_of(json, "tensors"), integer_of(json, "bytes")};
  EXPECT_EQ(total_of(sums_of(json, "components")), all);
  EXPECT_EQ(total_of(sums_of(json, "formats")), all);
  EXPECT_EQ(sums_of(json, "components").count("other"), 0U);
  for (const auto& [name, component] : json.find("components")->members()) {
    const Sum sum = {integer_of(component, "tensors"), integer_of(component, "bytes")};
    EXPECT_EQ(total_of(sums_of(component, "formats")), sum) << name;
  }
  EXPECT_EQ(integer_of(json, "bound") + static_cast<int64_t>(json.find("skipped")->items().size()),
            all.tensors);
}

TEST(InspectCommand, DemoModelIsUsedCompletely) {
  const Json json = json_of({"inspect"});
  expect_members(json, {{"model", Kind::string},
                        {"files", Kind::number},
                        {"file_bytes", Kind::number},
                        {"tensors", Kind::number},
                        {"bytes", Kind::number},
                        {"bound", Kind::number},
                        {"skipped", Kind::array},
                        {"components", Kind::object},
                        {"formats", Kind::object},
                        {"published", Kind::string}});
  expect_consistent(json);
  EXPECT_EQ(text_of(json, "model"), fs::canonical(kDemo).string());
  EXPECT_EQ(integer_of(json, "tensors"), 621);
  EXPECT_EQ(integer_of(json, "bytes"), 9'898'102);
  EXPECT_EQ(integer_of(json, "bound"), 621);
  EXPECT_EQ(integer_of(json, "file_bytes"),
            static_cast<int64_t>(fs::file_size(kDemo + "/model.safetensors")));
  EXPECT_EQ(text_of(json, "published"), "");
  const std::string text = output_of({"inspect"});
  EXPECT_EQ(last_line(text), "every tensor is accounted for: all 621 are computed with\n");
  EXPECT_NE(text.find("621 tensors, 9,898,102 bytes (9.44 MiB)"), std::string::npos) << text;
}

TEST(InspectCommand, DraftStagesAreCheckedAndSkipped) {
  const Json json = json_of({"inspect", tiny_model()});
  expect_consistent(json);
  EXPECT_EQ(integer_of(json, "tensors"), 934);
  EXPECT_EQ(integer_of(json, "bound"), 795);
  int64_t bytes = 0;
  for (const Json& skipped : json.find("skipped")->items()) {
    expect_members(skipped,
                   {{"name", Kind::string}, {"reason", Kind::string}, {"bytes", Kind::number}});
    EXPECT_TRUE(text_of(skipped, "name").starts_with("mtp."));
    EXPECT_NE(text_of(skipped, "reason").find("not computed"), std::string::npos);
    bytes += integer_of(skipped, "bytes");
  }
  EXPECT_EQ(bytes, 518'911);
  const std::string text = output_of({"inspect", "--model", tiny_model()});
  EXPECT_EQ(
      last_line(text),
      "every tensor is accounted for: 795 are computed with, 139 are skipped as said above\n");
  EXPECT_NE(text.find("139 tensors, 518,911 bytes"), std::string::npos) << text;
}

// Without a tower no picture row exists, so the routers' second biases are never read.
TEST(InspectCommand, TextOnlyCheckpoint) {
  const TempFolder folder;
  const std::string model = folder / "model";
  copy_model(tiny_model(), model);
  Json config = io::read_json_file(tiny_model() + "/config.json");
  remove_value(config, "vision_config");
  remove_value(config, "image_token_id");
  folder.write("model/config.json", io::dump_compact(config));
  EditedWeights edited(tiny_model());
  for (const char* prefix : {"vision.", "aligner.", "image_"}) {
    edited.remove_all(prefix);
  }
  edited.write(model);
  const Json json = json_of({"inspect", model});
  expect_consistent(json);
  EXPECT_EQ(integer_of(json, "tensors"), 934 - 34);
  EXPECT_EQ(integer_of(json, "bound"), 795 - 34 - 8);
  EXPECT_EQ(sums_of(json, "components").count("vision_tower"), 0U);
}

// Status 2 and, word for word, what loading the model for an answer says.
class InspectRefusal : public testing::Test {
 protected:
  void SetUp() override { copy_model(tiny_model(), model_); }

  void expect_refused(std::initializer_list<std::string_view> parts) const {
    const ProgramResult result = run_program({"inspect", model_});
    expect_error(result, 2, parts);
    EXPECT_EQ(result.err, run_program({"run", "--model", model_, "hello"}).err);
  }
  void write(std::string_view name, std::string_view bytes) const {
    folder_.write(str_cat("model/", name), bytes);
  }

  const TempFolder folder_;
  const std::string model_ = folder_ / "model";
};

TEST_F(InspectRefusal, NoCheckpoint) {
  expect_error(run_program({"inspect", folder_ / "nowhere"}), 2, {"nowhere", "no such folder"});
  expect_error(run_program({"inspect", folder_.path()}), 2, {"no config.json"});
  expect_error(run_program({"inspect", model_, model_}), 2, {});
}

TEST_F(InspectRefusal, MissingFiles) {
  for (const char* name : {"tokenizer.json", "model.safetensors"}) {
    fs::rename(model_ + "/" + name, folder_ / "aside");
    expect_refused({model_});
    fs::rename(folder_ / "aside", model_ + "/" + name);
  }
}

TEST_F(InspectRefusal, PointersUnfinishedDownloadsAndMissingShards) {
  write("model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 3952127\n");
  expect_refused({"model.safetensors", "Git LFS pointer"});
  fs::remove(model_ + "/model.safetensors");
  write("model.safetensors.index.json",
        R"({"weight_map":{"norm.weight":"model-00001-of-00002.safetensors",)"
        R"("head.weight":"model-00002-of-00002.safetensors"}})");
  write("model-00002-of-00002.safetensors", "");
  expect_refused({"1 of 2 shards", "'model-00001-of-00002.safetensors'", "missing"});
  write(".cache/huggingface/download/abc.incomplete", "");
  expect_refused({"unfinished downloads: 'abc.incomplete'"});
}

TEST_F(InspectRefusal, CutWeightsAndStrangeTensors) {
  const uintmax_t size = fs::file_size(model_ + "/model.safetensors");
  fs::resize_file(model_ + "/model.safetensors", size - 1);
  expect_refused({"model.safetensors"});
  EditedWeights edited(tiny_model());
  edited.add("layers.0.attn.extra.weight", DType::bf16, {96});
  edited.change("norm.weight", DType::f32, {96});
  edited.remove("mtp.1.norm.weight");
  edited.write(model_);
  expect_refused({"3 tensors", "layers.0.attn.extra.weight in model.safetensors is not known",
                  "norm.weight in model.safetensors is F32 [96], expected BF16 [96]",
                  "mtp.1.norm.weight is missing"});
}

// Large files of the Hugging Face cache are links to blobs that are named by their SHA-256.
class InspectCache : public testing::Test {
 protected:
  void SetUp() override {
    copy_model(tiny_model(), snapshot_);
    fs::create_directories(repository_ + "/blobs");
    weights_ = read_bytes(tiny_model() + "/model.safetensors");
    digest_ = io::sha256_hex(std::as_bytes(std::span(weights_)));
    fs::rename(snapshot_ + "/model.safetensors", blob());
    fs::create_symlink("../../blobs/" + digest_, snapshot_ + "/model.safetensors");
    folder_.write("hub/models--maker--tiny/refs/main", "0123abc\n");
  }

  std::string blob() const { return repository_ + "/blobs/" + digest_; }
  ProgramResult inspect(bool checks_sums) const {
    Arguments arguments = {"inspect", "maker/tiny", "--json"};
    if (checks_sums) {
      arguments.push_back("--checksums");
    }
    ProgramOptions options;
    options.environment = {{"HF_HUB_CACHE", folder_ / "hub"}};
    return run_program(arguments, options);
  }

  const TempFolder folder_;
  const std::string repository_ = folder_ / "hub/models--maker--tiny";
  const std::string snapshot_ = repository_ + "/snapshots/0123abc";
  std::string weights_;
  std::string digest_;
};

TEST_F(InspectCache, NameMeansTheSnapshot) {
  const ProgramResult result = inspect(false);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = io::parse_json(result.out, "output");
  EXPECT_EQ(text_of(json, "model"), snapshot_);
  EXPECT_EQ(integer_of(json, "tensors"), 934);
  EXPECT_EQ(json.find("checksums_equal"), nullptr);
}

TEST_F(InspectCache, UnfinishedBlobIsNamed) {
  fs::rename(blob(), blob() + ".incomplete");
  expect_error(inspect(false), 2,
               {"'model.safetensors'", "link whose target does not exist", digest_.substr(0, 40)});
}

TEST_F(InspectCache, BlobNamesAreChecksums) {
  ProgramResult result = inspect(true);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(integer_of(io::parse_json(result.out, "output"), "checksums_equal"), 1);
  weights_.back() = static_cast<char>(weights_.back() ^ 1);  // one bit of the last tensor
  folder_.write("hub/models--maker--tiny/blobs/" + digest_, weights_);
  EXPECT_EQ(inspect(false).status, 0);
  expect_error(inspect(true), 2,
               {"1 of 1 weight files differ", "'model.safetensors'", "expected " + digest_});
}

TEST(InspectChecksums, FromFilesBesideTheWeights) {
  const TempFolder folder;
  const std::string model = folder / "model";
  copy_model(tiny_model(), model);
  const std::string weights = read_bytes(model + "/model.safetensors");
  const std::string digest = io::sha256_hex(std::as_bytes(std::span(weights)));
  const std::string wrong = std::string(63, '0') + "1";
  const Arguments arguments = {"inspect", model, "--checksums"};
  expect_error(run_program(arguments), 2, {"no SHA-256 is known for 1 of 1", "SHA256SUMS"});

  const std::string note = "model/.cache/huggingface/download/model.safetensors.metadata";
  folder.write(note, "0123abc\n" + digest + "\n1790000000.5\n");
  EXPECT_NE(output_of(arguments).find("SHA-256 of 1 of 1 files equal"), std::string::npos);
  folder.write(note, "0123abc\n" + wrong + "\n1790000000.5\n");
  expect_error(run_program(arguments), 2, {"1 of 1 weight files differ", digest, wrong});

  folder.write("model/SHA256SUMS", digest + "  ./model.safetensors\n" + wrong + "  other\n");
  EXPECT_NE(output_of(arguments).find("SHA256SUMS"), std::string::npos);
  folder.write("model/SHA256SUMS", wrong + " *model.safetensors\n");
  expect_error(run_program(arguments), 2, {"1 of 1 weight files differ", digest, wrong});
  folder.write("model/SHA256SUMS", digest + " model.safetensors\n");
  expect_error(run_program(arguments), 2, {"SHA256SUMS:1", "no line of sha256sum"});
}

TEST(InspectRelease, EveryTensorInSecondsAndLittleMemory) {
  const TempFolder folder;
  write_layout(folder.path(), released_tensors());
  fs::copy_file(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json",
                folder / "config.json");
  folder.write("tokenizer.json",
               read_xz_file(golden_path("text/tokenizers/deepseek_v41.tokenizer.json.xz")));
  const auto start = std::chrono::steady_clock::now();
  const Json json = json_of({"inspect", folder.path()});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  struct rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  std::cout << "inspected in " << seconds.count() << " s, at most " << usage.ru_maxrss / 1024
            << " MiB (this test's own memory included)\n";
  EXPECT_LT(seconds.count(), 30.0);
  if (!kHasAddressSanitizer) {
    EXPECT_LT(usage.ru_maxrss, 300 << 10);  // KiB
  }
  expect_consistent(json);
  EXPECT_EQ(integer_of(json, "files"), 48);
  EXPECT_EQ(integer_of(json, "tensors"), 96'085);
  EXPECT_EQ(integer_of(json, "bytes"), 510'286'023'000);
  EXPECT_EQ(integer_of(json, "bound"), 96'085 - 2'401);
  EXPECT_EQ(text_of(json, "published"), "DeepSeek-V4.1-Flash");
  const Sums components = {{"experts", {92'160, 288'777'830'400}},
                           {"engram_tables", {4, 202'758'032'400}},
                           {"dspark_experts", {2'304, 7'219'445'760}},
                           {"attention", {520, 5'069'721'600}},
                           {"shared_experts", {240, 1'416'960'000}},
                           {"embedding", {1, 1'323'827'200}},
                           {"head", {1, 1'323'827'200}},
                           {"vision_tower", {259, 823'685'120}},
                           {"dspark", {97, 713'428'872}},
                           {"engram", {8, 315'043'840}},
                           {"routers", {120, 157'409'280}},
                           {"hyper_connections", {240, 157'295'040}},
                           {"aligner", {4, 146'821'120}},
                           {"indexer", {32, 45'130'752}},
                           {"compressor", {11, 36'704'256}},
                           {"norms", {81, 829'440}},
                           {"image_marks", {3, 30'720}}};
  EXPECT_EQ(sums_of(json, "components"), components);
  const Sums formats = {{"mxfp4", {94'464, 295'997'276'160}},
                        {"fp8 1x32", {4, 202'758'032'400}},
                        {"fp8 32x32", {710, 7'408'601'600}},
                        {"bf16", {520, 3'952'883'712}},
                        {"f32", {387, 169'229'128}}};
  EXPECT_EQ(sums_of(json, "formats"), formats);
  const std::string text = output_of({"inspect", folder.path()});
  EXPECT_NE(text.find("96,085 tensors, 510,286,023,000 bytes (475.24 GiB)"), std::string::npos);
  EXPECT_NE(text.find("equal the published DeepSeek-V4.1-Flash"), std::string::npos);
}

// NVIDIA's variant by its folder alone: checkpoint specification 9.
TEST(InspectRelease, Nvfp4Variant) {
  const TempFolder folder;
  write_layout(folder.path(), nvfp4_tensors());
  Json config = io::read_json_file(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  set_value(config, "quantization_config",
            io::parse_json(R"({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION",
                               "moe_quant_algo": "NVFP4", "expert_dtype": "fp4", "group_size": 16,
                               "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"]})",
                           "declaration"));
  folder.write("config.json", io::dump_compact(config));
  folder.write("hf_quant_config.json",
               R"({"producer": {"name": "modelopt", "version": "0.47.0rc0"},
                   "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": null}})");
  folder.write("tokenizer.json",
               read_xz_file(golden_path("text/tokenizers/deepseek_v41.tokenizer.json.xz")));
  const Json json = json_of({"inspect", folder.path()});
  expect_consistent(json);
  EXPECT_EQ(integer_of(json, "tensors"), 188'245);
  EXPECT_EQ(integer_of(json, "bytes"), 527'273'322'840);
  EXPECT_EQ(text_of(json, "published"), "DeepSeek-V4.1-Flash-NVFP4");
  EXPECT_EQ(sums_of(json, "formats").at("nvfp4").tensors, 4 * 46'080);
}

}  // namespace
}  // namespace tessera::test
