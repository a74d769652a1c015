#include "models/deepseek_v41/synthetic_checkpoint.h"

#include <algorithm>
#include <map>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/synthetic_values.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;  // made, then written, at a time

// Place of a file in the release: its kind and, for kinds of many files, its number.
using Role = std::pair<int, int64_t>;

// The number behind `prefix` and the dot after it.
int64_t number_behind(std::string_view name, std::string_view prefix) {
  int64_t number = 0;
  const std::string_view rest = name.substr(prefix.size());
  return parse_number(rest.substr(0, rest.find('.')), number) ? number : 0;
}

Role role_of(std::string_view name) {
  if (name.starts_with("vision.") || name.starts_with("aligner.")) {
    return {0, 0};
  }
  if (name.starts_with("embed.") || name.starts_with("image_")) {
    return {1, 0};
  }
  if (name.starts_with("layers.")) {
    const bool is_memory = name.find(".engram.") != std::string_view::npos;
    return {is_memory ? 5 : 2, number_behind(name, "layers.")};
  }
  if (name.starts_with("mtp.")) {
    return {4, number_behind(name, "mtp.")};
  }
  return {3, 0};
}

// NAME.weight of a scale NAME.*, in the same file; any other tensor itself.
const TensorSpec& weight_of(const TensorSpec& tensor,
                            const std::map<std::string_view, const TensorSpec*>& by_name) {
  const std::string weight = tensor.name.substr(0, tensor.name.rfind('.')) + ".weight";
  const auto found = by_name.find(weight);
  return found == by_name.end() ? tensor : *found->second;
}

// Collects pieces of tensors and writes them together.
class PieceWriter {
 public:
  PieceWriter(ThreadPool& threads, const CheckpointLayout& layout, const SyntheticFiles& files)
      : threads_(threads), layout_(layout), files_(files), buffer_(kPieceBytes) {}

  void write(const CheckpointShard& shard) {
    OutputFile file(files_.folder + "/" + shard.file_name);
    file.write(shard.start());
    std::map<std::string_view, const TensorSpec*> by_name;
    for (const TensorSpec& tensor : shard.tensors) {
      by_name[tensor.name] = &tensor;
    }
    for (const TensorSpec& tensor : shard.tensors) {
      add(file, tensor, SyntheticTensor(tensor, weight_of(tensor, by_name), files_.seed));
    }
    flush(file);
    file.commit();
  }

 private:
  void add(OutputFile& file, const TensorSpec& tensor, const SyntheticTensor& values) {
    const int64_t element_bytes = dtype_bytes(tensor.dtype);
    const int64_t total = tensor.bytes();
    for (int64_t done = 0; done < total;) {
      const int64_t room = (kPieceBytes - used_) / element_bytes * element_bytes;
      const int64_t bytes = std::min(room, total - done);
      values.fill(threads_, done / element_bytes,
                  {buffer_.data() + used_, static_cast<size_t>(bytes)});
      used_ += bytes;
      done += bytes;
      if (kPieceBytes - used_ < element_bytes || done < total) {
        flush(file);
      }
    }
  }

  void flush(OutputFile& file) {
    file.write(std::span<const std::byte>(buffer_.data(), static_cast<size_t>(used_)));
    done_ += used_;
    used_ = 0;
    if (files_.on_progress) {
      files_.on_progress(done_, layout_.data_bytes);
    }
  }

  ThreadPool& threads_;
  const CheckpointLayout& layout_;
  const SyntheticFiles& files_;
  AlignedBuffer buffer_;
  int64_t used_ = 0;
  int64_t done_ = 0;  // of all files
};

}  // namespace

CheckpointLayout released_layout(std::vector<TensorSpec> tensors) {
  std::map<Role, std::vector<TensorSpec>> roles;
  for (TensorSpec& tensor : tensors) {
    roles[role_of(tensor.name)].push_back(std::move(tensor));
  }
  std::vector<CheckpointShard> shards;
  for (auto& [role, content] : roles) {
    CheckpointShard& shard = shards.emplace_back();
    shard.file_name = shard_file_name(shards.size(), roles.size());
    shard.tensors = std::move(content);
  }
  return lay_out(std::move(shards));
}

void write_synthetic_files(ThreadPool& threads, const CheckpointLayout& layout,
                           const SyntheticFiles& files) {
  PieceWriter writer(threads, layout, files);
  for (const CheckpointShard& shard : layout.shards) {
    writer.write(shard);
  }
  OutputFile index(files.folder + "/model.safetensors.index.json");
  index.write(layout.index);
  index.commit();
}

}  // namespace tessera::deepseek_v41
