#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/checkpoint_index.h"
#include "io/safetensors.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string pattern = testing::TempDir() + "checkpoint_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    folder_ = root_ + "/模型";
    fs::create_directory(folder_);
  }
  ~CheckpointTest() override { fs::remove_all(root_); }

  void write(const std::string& name, std::string_view text) const {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  // A shard whose tensors have four bytes each, filled with the first character of their names.
  void write_shard(const std::string& name, const Names& tensors) const {
    SafetensorsWriter writer(folder_ + "/" + name, 4096);
    for (const std::string& tensor : tensors) {
      const std::vector<std::byte> data(4, static_cast<std::byte>(tensor[0]));
      writer.add(tensor, {data.data(), DType::u8, Shape{4}});
    }
    writer.commit();
  }

  // `entries`: "tensor shard".
  void write_index(const std::vector<std::pair<std::string, std::string>>& entries,
                   int64_t total_size) const {
    std::string text = str_cat("{\"metadata\":{\"total_size\":", total_size, "},\"weight_map\":{");
    for (const auto& [tensor, shard] : entries) {
      text += str_cat(text.back() == '{' ? "" : ",", "\"", tensor, "\":\"", shard, "\"");
    }
    write("model.safetensors.index.json", text + "}}");
  }

  void write_good() const {
    write_shard("s1.safetensors", {"b", "a"});
    write_shard("s2.safetensors", {"c"});
    write_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}, {"c", "s2.safetensors"}}, 12);
  }

  // The message without the folder in front.
  std::string refusal() const { return refusal(folder_); }
  static std::string refusal(const std::string& folder) {
    try {
      const Checkpoint checkpoint(folder);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos);
      EXPECT_TRUE(message.starts_with(folder)) << message;
      return message.substr(std::min(message.size(), folder.size()));
    }
    return "no error";
  }

  std::string root_;
  std::string folder_;
};

TEST_F(CheckpointTest, ReadsAllShardsOfTheIndex) {
  write_good();
  write_shard("other.safetensors", {"x"});  // not in the index: not a part of the checkpoint
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.tensor_count(), 3);
  EXPECT_EQ(checkpoint.total_bytes(), 12);
  EXPECT_EQ(checkpoint.folder(), folder_);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(checkpoint.find("x"), nullptr);
  ASSERT_NE(checkpoint.find("b"), nullptr);
  EXPECT_EQ(checkpoint.find("b")->dtype, DType::u8);
  for (const std::string_view name : checkpoint.names()) {
    const TensorView view = checkpoint.view(name);
    EXPECT_EQ(view.shape, Shape{4});
    EXPECT_EQ(std::memcmp(view.data, std::string(4, name[0]).data(), 4), 0);
  }
}

TEST_F(CheckpointTest, ReadsASingleFile) {
  write_shard("weights.safetensors", {"b", "a"});
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(checkpoint.total_bytes(), 8);
}

TEST_F(CheckpointTest, FollowsTheLinksOfASnapshot) {
  write_good();
  const std::string snapshot = root_ + "/snapshots/abc";
  fs::create_directories(snapshot);
  for (const char* name : {"s1.safetensors", "s2.safetensors", "model.safetensors.index.json"}) {
    fs::create_symlink(fs::path("../../模型") / name, snapshot + "/" + name);
  }
  EXPECT_EQ(Checkpoint(snapshot).tensor_count(), 3);
  // A download that has not finished: the link exists, its blob does not.
  fs::create_directory(root_ + "/blobs");
  std::ofstream(root_ + "/blobs/0123abcd.incomplete") << "part";
  fs::remove(folder_ + "/s2.safetensors");
  EXPECT_EQ(
      refusal(snapshot),
      ": 1 of 2 shards that model.safetensors.index.json names are missing: 's2.safetensors'; "
      "unfinished downloads: '0123abcd.incomplete'; finish the download");
}

TEST_F(CheckpointTest, AFolderWithoutWeightsIsSaid) {
  EXPECT_EQ(refusal(),
            ": has neither model.safetensors.index.json nor a *.safetensors file; is this the "
            "folder of a checkpoint?");
  write("config.json", "{}");
  write("model.safetensors.incomplete", "");
  EXPECT_EQ(refusal(),
            ": has neither model.safetensors.index.json nor a *.safetensors file; unfinished "
            "downloads: 'model.safetensors.incomplete'; finish the download");
  EXPECT_EQ(refusal(root_ + "/none"), ": no such folder; give the folder of a checkpoint");
  EXPECT_EQ(refusal(folder_ + "/config.json"), ": is a file, expected the folder of a checkpoint");
}

TEST_F(CheckpointTest, SeveralFilesNeedAnIndex) {
  write_shard("b.safetensors", {"b"});
  write_shard("a.safetensors", {"a"});
  EXPECT_EQ(refusal(),
            ": has 2 *.safetensors files but no model.safetensors.index.json; found: "
            "'a.safetensors', 'b.safetensors'; download the index too");
}

TEST_F(CheckpointTest, MissingShardsAndUnfinishedDownloadsAreNamed) {
  write_good();
  fs::remove(folder_ + "/s1.safetensors");
  write("s1.safetensors.incomplete", "x");
  write(".cache/huggingface/download/xyz.incomplete", "x");
  EXPECT_EQ(
      refusal(),
      ": 1 of 2 shards that model.safetensors.index.json names are missing: 's1.safetensors'; "
      "unfinished downloads: 's1.safetensors.incomplete', 'xyz.incomplete'; finish the "
      "download");
}

TEST_F(CheckpointTest, LfsPointersAreNamed) {
  write_good();
  write("s2.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_EQ(refusal(),
            "/s2.safetensors: is a Git LFS pointer, not the file itself; run `git lfs pull` in its "
            "folder");
}

TEST_F(CheckpointTest, ABrokenShardIsNamed) {
  write_good();
  fs::resize_file(folder_ + "/s2.safetensors", 4097);
  EXPECT_EQ(refusal(),
            "/s2.safetensors: tensor 'c' ends at data byte 4, but the file has only 1 data bytes; "
            "the file is truncated, download it again");
}

TEST_F(CheckpointTest, AllDifferencesComeInOneMessage) {
  write_shard("s1.safetensors", {"a", "extra", "moved", "twice"});
  write_shard("s2.safetensors", {"c", "twice"});
  write_index({{"a", "s1.safetensors"},
               {"absent", "s2.safetensors"},
               {"c", "s2.safetensors"},
               {"moved", "s2.safetensors"},
               {"twice", "s2.safetensors"}},
              100);
  EXPECT_EQ(refusal(),
            ": the shards do not match model.safetensors.index.json: 1 tensors appear twice: "
            "'twice' in 's1.safetensors' and 's2.safetensors'; 1 tensors that the index names are "
            "in no shard: 'absent' in 's2.safetensors'; 1 tensors are in another shard than the "
            "index says: 'moved' is in 's1.safetensors', not in 's2.safetensors'; 1 tensors are "
            "not in the index: 'extra' in 's1.safetensors'; metadata.total_size differs: the index "
            "says 100 bytes, the tensors have 24; download the folder again");
}

TEST_F(CheckpointTest, AtMostTwentyNamesAreSpelledOut) {
  Names extra = {"a"};
  std::vector<std::pair<std::string, std::string>> index = {{"a", "s.safetensors"}};
  for (int i = 0; i < 15; ++i) {
    extra.push_back(str_cat("extra", i));
    index.emplace_back(str_cat("absent", i), "s.safetensors");
  }
  write_shard("s.safetensors", extra);
  write_index(index, 64);
  const std::string message = refusal();
  EXPECT_NE(message.find("15 tensors that the index names are in no shard: 'absent0'"),
            std::string::npos);
  EXPECT_NE(message.find("15 tensors are not in the index: 'extra0'"), std::string::npos);
  EXPECT_NE(message.find(" and 10 more;"), std::string::npos);
  EXPECT_EQ(std::count(message.begin(), message.end(), ','), 20 - 2);
}

TEST_F(CheckpointTest, TheTotalSizeMayBeAbsentOrSpelledAsAFloat) {
  write_shard("s.safetensors", {"a"});
  for (const char* metadata : {"", "\"metadata\":{},", "\"metadata\":{\"total_size\":4.0},",
                               "\"metadata\":{\"total_size\":null},", "\"metadata\":null,"}) {
    write("model.safetensors.index.json",
          str_cat("{", metadata, "\"weight_map\":{\"a\":\"s.safetensors\"}}"));
    EXPECT_EQ(refusal(), "no error") << metadata;
  }
}

std::string index_refusal(std::string_view text) {
  try {
    parse_checkpoint_index(text, "i.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  return "no error";
}

TEST(CheckpointIndex, ShardsMustBePlainFileNames) {
  for (const char* shard :
       {"", ".", "..", "../evil", "/etc/passwd", "sub/s.safetensors", "a\\u0000"}) {
    const std::string message = index_refusal(str_cat("{\"weight_map\":{\"w\":\"", shard, "\"}}"));
    EXPECT_EQ(message.find("i.json: weight_map places tensor 'w' in '"), 0U) << message;
    EXPECT_NE(message.find("', expected the plain name of a file in the same folder"),
              std::string::npos);
  }
  EXPECT_EQ(index_refusal("{\"weight_map\":{\"w\":7}}"),
            "i.json: weight_map places tensor 'w' in 7, expected the plain name of a file in the "
            "same folder");
  EXPECT_EQ(index_refusal("{\"weight_map\":{\"w\":\"..a\"}}"), "no error");
}

TEST(CheckpointIndex, RefusesOtherJson) {
  EXPECT_EQ(index_refusal("[]"), "i.json: must be a JSON object");
  for (const char* text :
       {"{}", "{\"weight_map\":{}}", "{\"weight_map\":[\"a\"]}", "{\"weight_map\":null}"}) {
    EXPECT_EQ(index_refusal(text),
              "i.json: has no weight_map object that names tensors; not a safetensors index");
  }
  EXPECT_EQ(index_refusal("{\"weight_map\":{\"a\":\"s\",\n\"a\":\"s\"}}"),
            "i.json: line 2: the key 'a' appears twice in one object");
  for (const char* size : {"-1", "\"4\"", "1.5", "1e300", "99999999999999999999"}) {
    EXPECT_EQ(index_refusal(str_cat("{\"metadata\":{\"total_size\":", size,
                                    "},\"weight_map\":{\"a\":\"s\"}}")),
              "i.json: metadata.total_size must be a number of bytes");
  }
}

// The size of DeepSeek-V4.1-Flash: 96,085 tensors in 48 shards, two of them above 50 GB. The data
// is a hole in the file.
TEST_F(CheckpointTest, AReleaseSizedCheckpointOpensQuickly) {
  constexpr int64_t kShards = 48;
  constexpr int64_t kTensors = 96'085;
  std::vector<std::string> headers(kShards);
  std::vector<int64_t> data_bytes(kShards);
  std::string map;
  for (int64_t i = 0; i < kTensors; ++i) {
    const int64_t s = i * kShards / kTensors;
    const size_t shard = static_cast<size_t>(s);
    const std::string name =
        str_cat("layers.", s, ".ffn.experts.", i % 384, ".w", i / 384 % 6, ".", i, ".weight");
    const int64_t columns = s >= 46 ? 26'000'000 : 3200;
    const int64_t end = data_bytes[shard] + columns * 2;
    headers[shard] += str_cat(headers[shard].empty() ? "{" : ",", "\"", name,
                              "\":{\"dtype\":\"BF16\",\"shape\":[1,", columns,
                              "],\"data_offsets\":[", data_bytes[shard], ",", end, "]}");
    data_bytes[shard] = end;
    map += str_cat(map.empty() ? "" : ",\n", "    \"", name, "\": \"model-", s, ".safetensors\"");
  }
  int64_t total = 0;
  for (size_t shard = 0; shard < headers.size(); ++shard) {
    const std::string text = headers[shard] + "}";
    const std::string name = str_cat("model-", shard, ".safetensors");
    const uint64_t length = text.size();
    std::string prefix(8, '\0');
    std::memcpy(prefix.data(), &length, 8);
    write(name, prefix + text);
    fs::resize_file(folder_ + "/" + name,
                    8 + text.size() + static_cast<uintmax_t>(data_bytes[shard]));
    total += data_bytes[shard];
  }
  write("model.safetensors.index.json",
        str_cat("{\"metadata\": {\"total_size\": ", total, "},\n\"weight_map\": {\n", map, "}}\n"));

  const auto start = std::chrono::steady_clock::now();
  const Checkpoint checkpoint(folder_);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(checkpoint.tensor_count(), kTensors);
  EXPECT_EQ(checkpoint.total_bytes(), total);
  EXPECT_GT(total, 200'000'000'000);
  EXPECT_EQ(checkpoint.view("layers.47.ffn.experts.84.w4.96084.weight").data[1], std::byte{0});
  RecordProperty("seconds", std::to_string(seconds));
  // About 0.4 s; quadratic work would take minutes.
  EXPECT_LT(seconds, 10.0);
}

}  // namespace
}  // namespace tessera::io
