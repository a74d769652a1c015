#include "tests/support/released_layout.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "base/str_cat.h"

namespace tessera::test {
namespace {

constexpr int kLayers = 40;
constexpr int kExperts = 384;
constexpr int kDraftExperts = 128;

// Adds tensors of one shard.
class Shard {
 public:
  Shard(std::vector<LayoutTensor>& all, int number) : all_(all), number_(number) {}

  void add(std::string name, DType dtype, const Shape& shape) {
    all_.push_back({std::move(name), dtype, shape, number_});
  }
  void bf16(const std::string& name, const Shape& shape) { add(name, DType::bf16, shape); }
  void f32(const std::string& name, const Shape& shape) { add(name, DType::f32, shape); }
  // One scale per tile of 32 x 32.
  void fp8(const std::string& name, int64_t outputs, int64_t inputs) {
    add(name + ".weight", DType::f8_e4m3, {outputs, inputs});
    add(name + ".scale", DType::f8_e8m0, {outputs / 32, inputs / 32});
  }
  // Two codes per byte, one scale per row and 32 inputs.
  void fp4(const std::string& name, int64_t outputs, int64_t inputs) {
    add(name + ".weight", DType::i8, {outputs, inputs / 2});
    add(name + ".scale", DType::f8_e8m0, {outputs, inputs / 32});
  }

 private:
  std::vector<LayoutTensor>& all_;
  int number_;
};

// Section 5.2.
void add_block(Shard& s, const std::string& p, int experts) {
  s.bf16(p + "attn_norm.weight", {5120});
  s.bf16(p + "ffn_norm.weight", {5120});
  for (const char* half : {"attn", "ffn"}) {
    s.f32(str_cat(p, "hc_", half, "_fn"), {24, 20480});
    s.f32(str_cat(p, "hc_", half, "_base"), {24});
    s.f32(str_cat(p, "hc_", half, "_scale"), {3});
  }
  s.f32(p + "attn.attn_sink", {64});
  s.fp8(p + "attn.wq_a", 1280, 5120);
  s.bf16(p + "attn.q_norm.weight", {1280});
  s.fp8(p + "attn.wq_b", 32768, 1280);
  s.fp8(p + "attn.wkv", 512, 5120);
  s.bf16(p + "attn.kv_norm.weight", {512});
  s.fp8(p + "attn.wo_a", 8192, 4096);
  s.fp8(p + "attn.wo_b", 5120, 8192);
  s.bf16(p + "ffn.gate.weight", {experts, 5120});
  s.f32(p + "ffn.gate.bias", {experts});
  s.f32(p + "ffn.gate.bias_vl", {experts});
  for (int expert = 0; expert < experts; ++expert) {
    const std::string e = str_cat(p, "ffn.experts.", expert, ".");
    s.fp4(e + "w1", 2304, 5120);
    s.fp4(e + "w3", 2304, 5120);
    s.fp4(e + "w2", 5120, 2304);
  }
  s.fp8(p + "ffn.shared_experts.w1", 2304, 5120);
  s.fp8(p + "ffn.shared_experts.w3", 2304, 5120);
  s.fp8(p + "ffn.shared_experts.w2", 5120, 2304);
}

// Section 5.3, without Engram.
void add_sources(Shard& s, const std::string& p, int layer) {
  if (layer == 2 || layer == 8 || layer == 14 || layer == 20) {
    s.bf16(p + "compressor.wkv.weight", {512, 5120});
    s.bf16(p + "compressor.norm.weight", {512});
    if (layer != 20) {
      s.bf16(p + "compressor.wgate.weight", {512, 5120});
    }
    s.bf16(p + "indexer.wk.weight", {128, 512});
    s.bf16(p + "indexer.k_norm.weight", {128});
  }
  for (const int source : {2, 8, 14, 20, 24, 28, 32, 36}) {
    if (layer == source) {
      s.fp8(p + "indexer.wq_b", 4096, 1280);
      s.bf16(p + "indexer.weights_proj.weight", {32, 5120});
    }
  }
}

void add_engram(Shard s, const std::string& p, int64_t rows) {
  s.add(p + "embed.weight", DType::f8_e4m3, {rows, 256});
  s.add(p + "embed.scale", DType::f8_e8m0, {rows, 8});
  s.fp8(p + "wkv", 25600, 6144);
  s.bf16(p + "q_weight", {4, 5120});
  s.bf16(p + "k_weight", {4, 5120});
}

// Section 5.5.
void add_vision(Shard s) {
  s.bf16("vision.patch_embed.proj.weight", {1024, 588});
  s.bf16("vision.patch_embed.proj.bias", {1024});
  for (int block = 0; block < 32; ++block) {
    const std::string p = str_cat("vision.blocks.", block, ".");
    s.bf16(p + "norm1.weight", {1024});
    s.bf16(p + "norm2.weight", {1024});
    s.bf16(p + "attn.wqkv.weight", {3072, 1024});
    s.bf16(p + "attn.wqkv.bias", {3072});
    s.bf16(p + "attn.wo.weight", {1024, 1024});
    s.bf16(p + "attn.wo.bias", {1024});
    s.bf16(p + "mlp.w1.weight", {5632, 1024});
    s.bf16(p + "mlp.w2.weight", {1024, 2816});
  }
  s.bf16("vision.norm.weight", {1024});
  s.bf16("aligner.w1.weight", {5120, 9216});
  s.bf16("aligner.w1.bias", {5120});
  s.bf16("aligner.w2.weight", {5120, 5120});
  s.bf16("aligner.w2.bias", {5120});
}

// Section 5.4.
void add_drafts(std::vector<LayoutTensor>& all) {
  for (int stage = 0; stage < 3; ++stage) {
    Shard s(all, 44 + stage);
    add_block(s, str_cat("mtp.", stage, "."), kDraftExperts);
  }
  Shard first(all, 44);
  first.fp8("mtp.0.main_proj", 5120, 15360);
  first.bf16("mtp.0.main_norm.weight", {5120});
  Shard last(all, 46);
  last.bf16("mtp.2.norm.weight", {5120});
  last.bf16("mtp.2.markov_head.embed.weight", {129280, 256});
  last.bf16("mtp.2.markov_head.head.weight", {129280, 256});
  last.bf16("mtp.2.confidence_head.proj.weight", {1, 5376});
}

std::string header_text(const std::vector<const LayoutTensor*>& tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t begin = 0;
  for (const LayoutTensor* tensor : tensors) {
    text += str_cat(",\"", tensor->name, "\":{\"dtype\":\"", dtype_name(tensor->dtype),
                    "\",\"shape\":", shape_text(tensor->shape), ",\"data_offsets\":[", begin, ",",
                    begin + tensor->bytes(), "]}");
    begin += tensor->bytes();
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void write_shard(const std::string& path, std::vector<const LayoutTensor*> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const LayoutTensor* a, const LayoutTensor* b) {
    const int64_t a_bytes = dtype_bytes(a->dtype);
    const int64_t b_bytes = dtype_bytes(b->dtype);
    return a_bytes != b_bytes     ? a_bytes > b_bytes
           : a->dtype != b->dtype ? a->dtype < b->dtype
                                  : a->name < b->name;
  });
  const std::string header = header_text(tensors);
  uint64_t file_bytes = 8 + header.size();
  for (const LayoutTensor* tensor : tensors) {
    file_bytes += static_cast<uint64_t>(tensor->bytes());
  }
  std::ofstream file(path, std::ios::binary);
  for (int byte = 0; byte < 8; ++byte) {  // little-endian
    file.put(static_cast<char>(header.size() >> (8 * byte) & 0xff));
  }
  file << header;
  int64_t begin = 8 + static_cast<int64_t>(header.size());
  for (const LayoutTensor* tensor : tensors) {
    if (tensor->shape.rank() == 0) {
      const float one = 1;
      file.seekp(begin);
      file.write(reinterpret_cast<const char*>(&one), sizeof(one));
    }
    begin += tensor->bytes();
  }
  file.close();
  std::error_code error;
  std::filesystem::resize_file(path, file_bytes, error);  // a hole: no disk space
  if (!file || error) {
    throw std::runtime_error(
        str_cat(path, ": cannot make a sparse file of ", file_bytes, " bytes: ", error.message()));
  }
}

}  // namespace

std::vector<LayoutTensor> released_tensors() {
  std::vector<LayoutTensor> all;
  add_vision({all, 1});
  Shard embeddings(all, 2);
  embeddings.bf16("embed.weight", {129280, 5120});
  embeddings.bf16("image_start", {5120});
  embeddings.bf16("image_end", {5120});
  embeddings.bf16("image_newline", {5120});
  for (int layer = 0; layer < kLayers; ++layer) {
    Shard s(all, layer + 3);
    const std::string p = str_cat("layers.", layer, ".");
    add_block(s, p, kExperts);
    add_sources(s, p + "attn.", layer);
  }
  Shard head(all, 43);
  head.bf16("head.weight", {129280, 5120});
  head.bf16("norm.weight", {5120});
  add_drafts(all);
  add_engram({all, 47}, "layers.1.engram.", 384006168);
  add_engram({all, 48}, "layers.14.engram.", 384016682);
  return all;
}

namespace {

bool ends_with(const LayoutTensor& tensor, std::string_view suffix) {
  return tensor.name.ends_with(suffix);
}

// "NAME" of "NAME.weight" and the like.
std::string stem(const LayoutTensor& tensor) {
  return tensor.name.substr(0, tensor.name.rfind('.'));
}

}  // namespace

std::vector<LayoutTensor> nvfp4_tensors() {
  std::vector<LayoutTensor> all;
  for (LayoutTensor& tensor : released_tensors()) {
    const bool is_expert = tensor.name.starts_with("layers.") &&
                           tensor.name.find(".ffn.experts.") != std::string::npos;
    if (is_expert && ends_with(tensor, ".weight")) {
      const int64_t outputs = tensor.shape[0];
      const int64_t inputs = tensor.shape[1] * 2;
      Shard s(all, tensor.shard);
      s.add(stem(tensor) + ".weight", DType::u8, {outputs, inputs / 2});
      s.add(stem(tensor) + ".weight_scale", DType::f8_e4m3, {outputs, inputs / 16});
      s.f32(stem(tensor) + ".weight_scale_2", {});
      s.f32(stem(tensor) + ".input_scale", {});
    } else if (!is_expert) {
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

std::vector<LayoutTensor> packed_engram_tensors() {
  std::vector<LayoutTensor> all = released_tensors();
  for (LayoutTensor& tensor : all) {
    if (ends_with(tensor, ".engram.embed.weight")) {
      tensor.dtype = DType::u8;
      tensor.shape = {tensor.shape[0], 128};
    }
  }
  return all;
}

std::vector<LayoutTensor> bf16_tensors() {
  std::vector<LayoutTensor> all;
  for (LayoutTensor& tensor : released_tensors()) {
    if (tensor.dtype == DType::f8_e8m0) {
      continue;
    }
    if (tensor.dtype == DType::i8) {
      tensor.shape = {tensor.shape[0], tensor.shape[1] * 2};
    }
    if (tensor.dtype == DType::i8 || tensor.dtype == DType::f8_e4m3) {
      tensor.dtype = DType::bf16;
    }
    all.push_back(std::move(tensor));
  }
  return all;
}

std::string shard_name(int shard) {
  return str_cat("model-000", shard < 10 ? "0" : "", shard, "-of-000", kReleasedShards,
                 ".safetensors");
}

void write_layout(const std::string& folder, std::vector<LayoutTensor> tensors) {
  std::map<int, std::vector<const LayoutTensor*>> shards;
  int64_t total_bytes = 0;
  for (const LayoutTensor& tensor : tensors) {
    shards[tensor.shard].push_back(&tensor);
    total_bytes += tensor.bytes();
  }
  for (const auto& [shard, content] : shards) {
    write_shard(str_cat(folder, "/", shard_name(shard)), content);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const LayoutTensor& a, const LayoutTensor& b) { return a.name < b.name; });
  std::ofstream index(folder + "/model.safetensors.index.json", std::ios::binary);
  index << "{\n  \"metadata\": {\n    \"total_size\": " << total_bytes
        << "\n  },\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const LayoutTensor& tensor : tensors) {
    index << separator << "    \"" << tensor.name << "\": \"" << shard_name(tensor.shard) << "\"";
    separator = ",\n";
  }
  index << "\n  }\n}\n";
  if (!index.flush()) {
    throw std::runtime_error(folder + ": cannot write the index");
  }
}

}  // namespace tessera::test
