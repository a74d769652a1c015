#include "models/deepseek_v41/synthetic_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/error.h"
#include "io/safetensors.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/synthetic.h"
#include "tests/support/edited_model.h"
#include "tests/support/op_test.h"

namespace tessera::deepseek_v41 {
namespace {

Config tiny() { return read_config(test::tiny_model() + "/config.json"); }

// Numbers of checkpoint_v41 specification 2.
TEST(ReleasedLayout, FilesOfTheRelease) {
  const Config config = read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  const CheckpointLayout layout = released_layout(tensor_catalogue(config));
  EXPECT_EQ(layout.tensors, 96'085);
  EXPECT_EQ(layout.data_bytes, 510'286'023'000);
  ASSERT_EQ(layout.shards.size(), 48U);
  struct File {
    size_t number;
    size_t tensors;
    int64_t bytes;
  };
  for (const File& file :
       {File{1, 263, 970'506'240}, File{2, 4, 1'323'857'920}, File{3, 2334, 7'389'500'888},
        File{5, 2342, 7'405'694'680}, File{43, 2, 1'323'837'440}, File{44, 801, 2'652'643'800},
        File{45, 798, 2'573'913'560}, File{46, 802, 2'706'317'272}, File{47, 6, 101'535'150'272},
        File{48, 6, 101'537'925'968}}) {
    const CheckpointShard& shard = layout.shards[file.number - 1];
    EXPECT_EQ(shard.tensors.size(), file.tensors) << file.number;
    EXPECT_EQ(shard.data_bytes, file.bytes) << file.number;
    EXPECT_EQ(shard.header.size() % 8, 0U);
  }
  EXPECT_EQ(layout.shards[0].file_name, "model-00001-of-00048.safetensors");
  EXPECT_EQ(layout.shards[47].file_name, "model-00048-of-00048.safetensors");
  EXPECT_EQ(layout.shards[2].tensors.back().name, "layers.0.ffn.experts.99.w3.weight");
}

// Packed weights of an expert are one run of bytes, and so are its scales.
TEST(ReleasedLayout, ExpertsLieTogether) {
  const CheckpointLayout layout = released_layout(tensor_catalogue(tiny()));
  int64_t runs = 0;
  for (const CheckpointShard& shard : layout.shards) {
    for (size_t i = 0; i < shard.tensors.size(); ++i) {
      const std::string& name = shard.tensors[i].name;
      const size_t part = name.find(".w1.");
      if (name.find(".ffn.experts.") == std::string::npos || part == std::string::npos) {
        continue;
      }
      const std::string end = name.substr(part + 3);
      ASSERT_LT(i + 2, shard.tensors.size());
      EXPECT_EQ(shard.tensors[i + 1].name, name.substr(0, part) + ".w2" + end);
      EXPECT_EQ(shard.tensors[i + 2].name, name.substr(0, part) + ".w3" + end);
      ++runs;
    }
  }
  EXPECT_EQ(runs, 2 * (8 * 10 + 2 * 6));
}

TEST(ReleasedLayout, MoreBytesThanCanBeCounted) {
  const int64_t much = int64_t{1} << 40;
  EXPECT_THROW(released_layout({{"a.weight", DType::bf16, {much, much}}}), Error);
  EXPECT_THROW(
      released_layout({{"a.weight", DType::i8, {INT64_MAX}}, {"b.weight", DType::i8, {INT64_MAX}}}),
      Error);
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = test::read_bytes(entry.path().string());
  }
  return files;
}

TEST(SyntheticFiles, SameBytesOnAnyNumberOfThreads) {
  const CheckpointLayout layout = released_layout(tensor_catalogue(tiny()));
  std::vector<std::map<std::string, std::string>> runs;
  for (const int threads : {1, 2, 3}) {
    const test::TempFolder folder;
    ThreadPool pool(threads);
    int64_t last = 0;
    write_synthetic_files(pool, layout,
                          {.folder = folder.path(), .on_progress = [&](int64_t done, int64_t all) {
                             EXPECT_EQ(all, layout.data_bytes);
                             EXPECT_GE(done, last);
                             last = done;
                           }});
    EXPECT_EQ(last, layout.data_bytes);
    runs.push_back(files_in(folder.path()));
  }
  EXPECT_EQ(runs[0].size(), layout.shards.size() + 1);
  EXPECT_TRUE(runs[0] == runs[1]);
  EXPECT_TRUE(runs[0] == runs[2]);
  int64_t bytes = 0;
  for (const auto& [name, content] : runs[0]) {
    bytes += static_cast<int64_t>(content.size());
  }
  EXPECT_EQ(bytes, layout.file_bytes());
}

// What a checkpoint holds is what is made in memory, and the reader accepts the files.
TEST(SyntheticFiles, EqualTheWeightsInMemory) {
  const Config config = tiny();
  const test::TempFolder folder;
  test::OpContext context;
  const CheckpointLayout layout = released_layout(tensor_catalogue(config));
  write_synthetic_files(context.pool, layout, {.folder = folder.path(), .seed = 3});
  const io::Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensor_count(), layout.tensors);
  EXPECT_EQ(checkpoint.total_bytes(), layout.data_bytes);
  EXPECT_EQ(*checkpoint.files().front().metadata_value("format"), "pt");
  const SyntheticWeights made(context.ctx, config, 3);
  EXPECT_EQ(made.bytes(), layout.data_bytes);
  const Weights& w = made.weights();
  const auto expect_equal = [&](const char* name, const std::byte* data) {
    const TensorView view = checkpoint.view(name);
    EXPECT_EQ(std::memcmp(view.data, data, static_cast<size_t>(view.bytes())), 0) << name;
  };
  const auto expect_equal_matrix = [&](const std::string& name, const Linear& layer) {
    const auto parts = weight_bytes(layer.weight);
    expect_equal((name + ".weight").c_str(), parts[0].data());
    expect_equal((name + ".scale").c_str(), parts[1].data());
  };
  expect_equal("embed.weight", w.embed);
  expect_equal("layers.1.hc_ffn_scale", w.layers[1].ffn_mix.scale);
  expect_equal("layers.7.ffn.gate.bias_vl", w.layers[7].ffn.bias_vl);
  expect_equal("aligner.w2.bias", w.vision.aligner_w2.bias);
  expect_equal("mtp.1.markov_head.embed.weight", w.dspark.markov_embed);
  expect_equal_matrix("layers.2.attn.indexer.wq_b", w.layers[2].attn.indexer->wq_b);
  expect_equal_matrix("layers.0.ffn.experts.9.w2", w.layers[0].ffn.experts[9].w2);
  expect_equal("layers.4.engram.embed.weight", w.layers[4].engram->table.codes);
  expect_equal("layers.4.engram.embed.scale", w.layers[4].engram->table.scales);
}

TEST(SyntheticFiles, AnErrorLeavesNoHalfFile) {
  const CheckpointLayout layout = released_layout(tensor_catalogue(tiny()));
  const test::TempFolder folder;
  ThreadPool pool(2);
  EXPECT_THROW(write_synthetic_files(pool, layout,
                                     {.folder = folder.path(),
                                      .on_progress =
                                          [](int64_t done, int64_t) {
                                            if (done > 1'000'000) {
                                              throw Error(ErrorCode::cancelled, "enough");
                                            }
                                          }}),
               Error);
  const std::map<std::string, std::string> files = files_in(folder.path());
  EXPECT_FALSE(files.empty());
  EXPECT_FALSE(files.contains("model.safetensors.index.json"));
  for (const auto& [name, content] : files) {
    EXPECT_TRUE(name.ends_with(".safetensors")) << name;
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
