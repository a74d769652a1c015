// The layouts beside the release that checkpoints of this model are published in: each binds by its
// folder alone, tensor by tensor, and config.json has to agree. Sparse files, no values.
// Numbers: checkpoint_v41 specification sections 9 and 10.1.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/checkpoint_binder.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/inventory.h"
#include "tests/support/released_layout.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

using deepseek_v41::Config;
using deepseek_v41::InventoryItem;

// Section 9: NVIDIA's quantization_config.
constexpr const char* kNvfp4Declaration =
    R"({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4",
        "expert_dtype": "fp4", "group_size": 16, "kv_cache_quant_algo": null,
        "config_groups": {"group_0": {"targets": ["Linear"],
          "weights": {"num_bits": 4, "type": "float", "group_size": 16},
          "input_activations": {"num_bits": 4, "type": "float", "group_size": 16}}},
        "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"],
        "producer": {"name": "modelopt", "version": "0.47.0rc0"}})";
constexpr const char* kPackedEngramDeclaration =
    R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
        "scale_fmt": "ue8m0", "expert_dtype": "fp4", "engram_dtype": "fp4",
        "engram_block_size": 32, "engram_scale_fmt": "ue8m0"})";

// The released configuration with another quantization_config, or without one ("").
Config config_with(std::string_view declaration) {
  io::Json json = io::read_json_file(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  std::erase_if(json.members(),
                [](const io::Json::Member& m) { return m.first == "quantization_config"; });
  if (!declaration.empty()) {
    json.set("quantization_config", io::parse_json(declaration, "declaration"));
  }
  return deepseek_v41::parse_config(json, "config.json");
}

struct Opened {
  int64_t tensors = 0;
  int64_t bytes = 0;
  std::map<std::string, std::map<std::string, int64_t>> formats;  // tensors by component
};

Opened open(std::vector<LayoutTensor> tensors, const Config& config) {
  const TempFolder folder;
  write_layout(folder.path(), std::move(tensors));
  const auto start = std::chrono::steady_clock::now();
  const io::Checkpoint checkpoint(folder.path());
  deepseek_v41::bind_weights(checkpoint, config);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Opened opened = {
      .tensors = checkpoint.tensor_count(), .bytes = checkpoint.total_bytes(), .formats = {}};
  std::cout << opened.tensors << " tensors opened and bound in " << seconds.count() << " s\n";
  EXPECT_LT(seconds.count(), 10.0);
  for (const InventoryItem& item : deepseek_v41::take_inventory(checkpoint, config)) {
    ++opened.formats[std::string(item.component)][item.format];
  }
  return opened;
}

// What config.json alone says, in the same terms as the fixture.
void expect_catalogue(const Config& config, std::vector<LayoutTensor> tensors) {
  std::vector<TensorSpec> catalogue = deepseek_v41::tensor_catalogue(config);
  ASSERT_EQ(catalogue.size(), tensors.size());
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(catalogue.begin(), catalogue.end(), by_name);
  std::sort(tensors.begin(), tensors.end(), by_name);
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_EQ(catalogue[i].name, tensors[i].name);
    ASSERT_EQ(catalogue[i].dtype, tensors[i].dtype) << tensors[i].name;
    ASSERT_EQ(shape_text(catalogue[i].shape), shape_text(tensors[i].shape)) << tensors[i].name;
  }
}

TEST(CheckpointLayouts, TheReleaseFromItsConfigAlone) {
  const Config config =
      deepseek_v41::read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  expect_catalogue(config, released_tensors());
}

TEST(CheckpointLayouts, Nvfp4) {
  const Config config = config_with(kNvfp4Declaration);
  const Opened opened = open(nvfp4_tensors(), config);
  EXPECT_EQ(opened.tensors, 188'245);
  EXPECT_EQ(opened.bytes, 527'273'322'840);
  EXPECT_EQ(deepseek_v41::published_name(opened.tensors, opened.bytes),
            "DeepSeek-V4.1-Flash-NVFP4");
  using Formats = std::map<std::string, int64_t>;
  EXPECT_EQ(opened.formats.at("experts"), (Formats{{"nvfp4", 184'320}}));
  EXPECT_EQ(opened.formats.at("dspark_experts"), (Formats{{"mxfp4", 2'304}}));
  EXPECT_EQ(opened.formats.at("shared_experts"), (Formats{{"fp8 32x32", 240}}));
  expect_catalogue(config, nvfp4_tensors());
}

// A refreshed release: the same tensors, other files. Names of folders and files mean nothing.
TEST(CheckpointLayouts, OtherShards) {
  std::vector<LayoutTensor> tensors = released_tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].shard = 1 + static_cast<int>(i * 7 % 31);
  }
  const Opened opened = open(std::move(tensors), config_with(""));
  EXPECT_EQ(opened.tensors, 96'085);
  EXPECT_EQ(opened.bytes, 510'286'023'000);
}

TEST(CheckpointLayouts, PackedEngramTables) {
  const Config config = config_with(kPackedEngramDeclaration);
  const Opened opened = open(packed_engram_tensors(), config);
  EXPECT_EQ(opened.formats.at("engram_tables"), (std::map<std::string, int64_t>{{"mxfp4", 4}}));
  EXPECT_EQ(opened.bytes, 510'286'023'000 - 128 * (int64_t{384'006'168} + 384'016'682));
  expect_catalogue(config, packed_engram_tensors());
}

TEST(CheckpointLayouts, Bf16Only) {
  const Opened opened = open(bf16_tensors(), config_with(""));
  for (const auto& [component, formats] : opened.formats) {
    for (const auto& [format, tensors] : formats) {
      EXPECT_TRUE(format == "bf16" || format == "f32") << component << " " << format;
    }
  }
  EXPECT_EQ(opened.tensors, 96'085 - 47'589);
}

// config.json of one checkpoint beside the files of another.
TEST(CheckpointLayouts, DeclarationOfAnotherCheckpoint) {
  const std::pair<std::vector<LayoutTensor>, std::string> cases[] = {
      {released_tensors(),
       "layers.0.ffn.experts.0.w1.weight in model-00003-of-00048.safetensors is I8 [2304,2560] "
       "(mxfp4), but config.json declares nvfp4 for it"},
      {bf16_tensors(),
       "layers.0.attn.wq_a.weight in model-00003-of-00048.safetensors is BF16 [1280,5120] (bf16), "
       "but config.json declares fp8 32x32 for it"}};
  for (const auto& [tensors, expected] : cases) {
    try {
      open(tensors, config_with(kNvfp4Declaration));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera::test
