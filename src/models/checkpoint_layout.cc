#include "models/checkpoint_layout.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"

namespace tessera {
namespace {

constexpr int64_t kHeaderAlignment = 8;

int64_t bytes_of(const TensorSpec& tensor) {
  std::optional<int64_t> bytes = dtype_bytes(tensor.dtype);
  for (const int64_t size : tensor.shape.dims()) {
    bytes = bytes.has_value() ? checked_mul(*bytes, size) : bytes;
  }
  if (!bytes.has_value()) {
    throw Error(ErrorCode::unsupported,
                str_cat(tensor.name, " ", shape_text(tensor.shape), ": too large to be counted"));
  }
  return *bytes;
}

int64_t sum_of(int64_t a, int64_t b) {
  const std::optional<int64_t> sum = checked_add(a, b);
  if (!sum.has_value()) {
    throw Error(ErrorCode::unsupported, "the checkpoint is too large for its bytes to be counted");
  }
  return *sum;
}

std::string json_string(std::string_view text) {
  return io::dump_compact(io::Json::string(std::string(text)));
}

std::string five_digits(size_t number) {
  const std::string digits = str_cat(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

// Orders the tensors and writes the header.
void finish(CheckpointShard& shard) {
  std::sort(shard.tensors.begin(), shard.tensors.end(),
            [](const TensorSpec& a, const TensorSpec& b) {
              return std::tuple(-dtype_bytes(a.dtype), a.dtype, std::string_view(a.name)) <
                     std::tuple(-dtype_bytes(b.dtype), b.dtype, std::string_view(b.name));
            });
  shard.header = R"({"__metadata__":{"format":"pt"})";
  for (const TensorSpec& tensor : shard.tensors) {
    const int64_t end = sum_of(shard.data_bytes, bytes_of(tensor));
    shard.header += str_cat(",", json_string(tensor.name), ":{\"dtype\":\"",
                            dtype_name(tensor.dtype), "\",\"shape\":", shape_text(tensor.shape),
                            ",\"data_offsets\":[", shard.data_bytes, ",", end, "]}");
    shard.data_bytes = end;
  }
  shard.header += "}";
  const int64_t bytes = static_cast<int64_t>(shard.header.size());
  shard.header.append(static_cast<size_t>(round_up(bytes, kHeaderAlignment) - bytes), ' ');
}

std::string index_text(const CheckpointLayout& layout) {
  std::map<std::string_view, std::string_view> files;
  for (const CheckpointShard& shard : layout.shards) {
    for (const TensorSpec& tensor : shard.tensors) {
      files[tensor.name] = shard.file_name;
    }
  }
  std::string text = str_cat("{\n  \"metadata\": {\n    \"total_size\": ", layout.data_bytes,
                             "\n  },\n  \"weight_map\": {");
  const char* separator = "\n";
  for (const auto& [tensor, file] : files) {
    text += str_cat(separator, "    ", json_string(tensor), ": ", json_string(file));
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace

std::string CheckpointShard::start() const {
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header;
}

int64_t CheckpointLayout::file_bytes() const {
  int64_t bytes = static_cast<int64_t>(index.size());
  for (const CheckpointShard& shard : shards) {
    bytes = sum_of(bytes, shard.file_bytes());
  }
  return bytes;
}

CheckpointLayout lay_out(std::vector<CheckpointShard> shards) {
  CheckpointLayout layout;
  layout.shards = std::move(shards);
  for (CheckpointShard& shard : layout.shards) {
    finish(shard);
    layout.tensors += std::ssize(shard.tensors);
    layout.data_bytes = sum_of(layout.data_bytes, shard.data_bytes);
  }
  layout.index = index_text(layout);
  return layout;
}

std::string shard_file_name(size_t number, size_t shards) {
  return str_cat("model-", five_digits(number), "-of-", five_digits(shards), ".safetensors");
}

}  // namespace tessera
