// The released checkpoint, as far as it can be tested without its 510 GB: the loader accounts for
// every name, type, shape and byte. Numbers: checkpoint_v41 specification sections 2, 6 and 7.
#include "tests/support/released_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/safetensors.h"
#include "models/deepseek_v41/checkpoint_binder.h"
#include "models/deepseek_v41/config.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

constexpr const char* kConfig = TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json";

struct Sum {
  int64_t tensors = 0;
  int64_t bytes = 0;
  void add(int64_t more) {
    ++tensors;
    bytes += more;
  }
  friend bool operator==(const Sum&, const Sum&) = default;
};
void PrintTo(const Sum& sum, std::ostream* out) {
  *out << sum.tensors << " tensors, " << sum.bytes << " bytes";
}

// The rows of section 7.
std::string component(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (name.starts_with("mtp.")) {
    return has(".ffn.experts.") ? "draft experts" : "draft rest";
  }
  if (has(".engram.")) {
    return has(".engram.embed.") ? "Engram tables" : "Engram rest";
  }
  constexpr std::pair<std::string_view, const char*> kParts[] = {
      {".ffn.experts.", "experts"},
      {".shared_experts.", "shared experts"},
      {"vision.", "tower"},
      {"aligner.", "aligner"},
      {".indexer.", "indexer"},
      {".compressor.", "compressor"},
      {".attn.", "attention"},
      {".ffn.gate.", "routers"},
      {".hc_", "hyper-connections"},
      {"embed.weight", "embedding"},
      {"head.weight", "head"},
      {"norm.weight", "norms and image vectors"},
      {"image_", "norms and image vectors"}};
  for (const auto& [part, row] : kParts) {
    if (has(part)) {
      return row;
    }
  }
  return "unknown";
}

class ReleasedLayout : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    write_layout(folder_->path(), released_tensors());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static TempFolder* folder_;  // of all tests: files are never changed
};
TempFolder* ReleasedLayout::folder_ = nullptr;

TEST_F(ReleasedLayout, CountsAndBytesEqualThePublishedOnes) {
  const io::Checkpoint checkpoint(folder_->path());
  EXPECT_EQ(checkpoint.tensor_count(), 96'085);
  EXPECT_EQ(checkpoint.total_bytes(), 510'286'023'000);
  std::map<std::string_view, Sum> by_type;
  std::map<std::string, Sum> by_component;
  for (const std::string_view name : checkpoint.names()) {
    const io::TensorEntry& entry = *checkpoint.find(name);
    by_type[dtype_name(entry.dtype)].add(entry.end - entry.begin);
    by_component[component(entry.name)].add(entry.end - entry.begin);
  }
  const std::map<std::string_view, Sum> types = {{"I8", {47'232, 278'585'671'680}},
                                                 {"F8_E4M3", {357, 204'015'223'296}},
                                                 {"F8_E8M0", {47'589, 23'563'015'184}},
                                                 {"BF16", {520, 3'952'883'712}},
                                                 {"F32", {387, 169'229'128}}};
  EXPECT_EQ(by_type, types);
  const std::map<std::string, Sum> components = {{"experts", {92'160, 288'777'830'400}},
                                                 {"Engram tables", {4, 202'758'032'400}},
                                                 {"draft experts", {2'304, 7'219'445'760}},
                                                 {"attention", {520, 5'069'721'600}},
                                                 {"shared experts", {240, 1'416'960'000}},
                                                 {"embedding", {1, 1'323'827'200}},
                                                 {"head", {1, 1'323'827'200}},
                                                 {"tower", {259, 823'685'120}},
                                                 {"draft rest", {97, 713'428'872}},
                                                 {"Engram rest", {8, 315'043'840}},
                                                 {"routers", {120, 157'409'280}},
                                                 {"hyper-connections", {240, 157'295'040}},
                                                 {"aligner", {4, 146'821'120}},
                                                 {"indexer", {32, 45'130'752}},
                                                 {"compressor", {11, 36'704'256}},
                                                 {"norms and image vectors", {84, 860'160}}};
  EXPECT_EQ(by_component, components);
}

TEST_F(ReleasedLayout, ShardsHoldWhatTheReleaseHolds) {
  std::map<int, Sum> shards;
  for (int shard = 1; shard <= kReleasedShards; ++shard) {
    const io::SafetensorsFile file(*folder_ / shard_name(shard));
    for (const io::TensorEntry& entry : file.tensors()) {
      shards[shard].add(entry.end - entry.begin);
    }
  }
  EXPECT_EQ(shards[1], (Sum{263, 970'506'240}));
  EXPECT_EQ(shards[2], (Sum{4, 1'323'857'920}));
  EXPECT_EQ(shards[43], (Sum{2, 1'323'837'440}));
  EXPECT_EQ(shards[44], (Sum{801, 2'652'643'800}));
  EXPECT_EQ(shards[45], (Sum{798, 2'573'913'560}));
  EXPECT_EQ(shards[46], (Sum{802, 2'706'317'272}));
  EXPECT_EQ(shards[47], (Sum{6, 101'535'150'272}));
  EXPECT_EQ(shards[48], (Sum{6, 101'537'925'968}));
  const auto [fewest, most] = std::minmax_element(
      shards.find(3), shards.find(43),
      [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  EXPECT_EQ(fewest->second, (Sum{2'334, 7'389'500'888}));
  EXPECT_EQ(most->second, (Sum{2'342, 7'405'694'680}));
}

TEST_F(ReleasedLayout, EveryTensorIsBound) {
  const deepseek_v41::Config config = deepseek_v41::read_config(kConfig);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const io::Checkpoint checkpoint(folder_->path());
  const Clock::time_point opened = Clock::now();
  const deepseek_v41::Weights w = deepseek_v41::bind_weights(checkpoint, config);
  const Clock::time_point bound = Clock::now();
  const auto ms = [](Clock::duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::cout << "opened in " << ms(opened - start) << " ms, bound in " << ms(bound - opened)
            << " ms\n";
  EXPECT_LT(ms(bound - start), 10'000);
  ASSERT_EQ(w.layers.size(), 40U);
  EXPECT_EQ(w.layers[39].ffn.experts.size(), 384U);
  EXPECT_EQ(w.layers[0].attn.wo_a.size(), 8U);
  EXPECT_EQ(w.vision.blocks.size(), 32U);
  ASSERT_EQ(w.dspark.stages.size(), 3U);
  EXPECT_EQ(w.dspark.stages[2].ffn.experts.size(), 128U);
  for (int64_t layer = 0; layer < 40; ++layer) {
    const deepseek_v41::LayerWeights& l = w.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(l.engram.has_value(), layer == 1 || layer == 14) << layer;
    EXPECT_EQ(l.attn.compressor.has_value(), layer == 2 || layer == 8 || layer == 14 || layer == 20)
        << layer;
    EXPECT_EQ(l.attn.indexer.has_value(), l.attn.compressor.has_value() || layer == 24 ||
                                              layer == 28 || layer == 32 || layer == 36)
        << layer;
  }
  // The last row of a table of 98 GB lies where the header says, and reads as zero.
  const TensorView table = checkpoint.view("layers.14.engram.embed.weight");
  EXPECT_EQ(w.layers[14].engram->table.codes, table.data);
  EXPECT_EQ(table.data[table.bytes() - 1], std::byte{0});
}

// The message of the Error{bad_file} that opening and binding the tensors ends in.
std::string refusal_of(std::vector<LayoutTensor> tensors) {
  const TempFolder folder;
  write_layout(folder.path(), std::move(tensors));
  try {
    const io::Checkpoint checkpoint(folder.path());
    deepseek_v41::bind_weights(checkpoint, deepseek_v41::read_config(kConfig));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(ReleasedLayoutRefusal, OneErrorListsAllFindings) {
  std::vector<LayoutTensor> tensors = released_tensors();
  const auto find = [&](std::string_view name) {
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const LayoutTensor& t) { return t.name == name; });
  };
  tensors.erase(find("layers.17.ffn.experts.383.w2.scale"));
  find("layers.20.attn.compressor.norm.weight")->name = "layers.20.attn.compressor.ape";
  tensors.push_back({"layers.20.attn.compressor.wgate.weight", DType::bf16, {512, 5120}, 23});
  find("mtp.2.markov_head.embed.weight")->dtype = DType::f32;
  const std::string message = refusal_of(std::move(tensors));
  for (const char* finding :
       {"5 tensors do not fit",
        "layers.17.ffn.experts.383.w2.weight in model-00020-of-00048.safetensors is I8 [5120,1152] "
        "without a scale, expected layers.17.ffn.experts.383.w2.scale, F8_E8M0 [5120,72]",
        "layers.20.attn.compressor.norm.weight is missing (expected BF16 [512])",
        "layers.20.attn.compressor.ape in model-00023-of-00048.safetensors is not known",
        "layers.20.attn.compressor.wgate.weight in model-00023-of-00048.safetensors is not known",
        "mtp.2.markov_head.embed.weight in model-00046-of-00048.safetensors is F32 [129280,256], "
        "expected BF16 [129280,256]"}) {
    EXPECT_NE(message.find(finding), std::string::npos) << finding << "\n" << message;
  }
}

// One file of the release replaced by the file of another download.
TEST(ReleasedLayoutRefusal, ShardThatTheIndexDoesNotDescribe) {
  const TempFolder folder;
  write_layout(folder.path(), released_tensors());
  std::vector<LayoutTensor> other;
  for (LayoutTensor& tensor : released_tensors()) {
    if (tensor.shard == 43) {
      other.push_back(std::move(tensor));
    }
  }
  other[1].name = "model.norm.weight";
  const TempFolder scratch;
  write_layout(scratch.path(), other);
  std::filesystem::rename(scratch / shard_name(43), folder / shard_name(43));
  try {
    const io::Checkpoint checkpoint(folder.path());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    const std::string message = error.what();
    EXPECT_NE(message.find("'norm.weight' in 'model-00043-of-00048.safetensors'"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("'model.norm.weight' in 'model-00043-of-00048.safetensors'"),
              std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace tessera::test
