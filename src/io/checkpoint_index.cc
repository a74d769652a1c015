#include "io/checkpoint_index.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"

namespace tessera::io {
namespace {

[[noreturn]] void fail(std::string_view name, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(name, ": ", what));
}

bool is_plain_file_name(std::string_view shard) {
  return !shard.empty() && shard != "." && shard != ".." &&
         shard.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// Some writers spell the size as a float.
std::optional<int64_t> whole_number(const Json& json) {
  if (json.is_integer()) {
    return json.as_int64();
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::optional<double> value = json.as_double();
  if (!value.has_value() || !(*value >= 0 && *value <= kExact) ||
      static_cast<double>(static_cast<int64_t>(*value)) != *value) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

std::optional<int64_t> total_size(const Json& index, std::string_view name) {
  const Json* metadata = index.find("metadata");
  const Json* size = metadata == nullptr ? nullptr : metadata->find("total_size");
  if (size == nullptr || size->is_null()) {
    return std::nullopt;
  }
  const std::optional<int64_t> value = whole_number(*size);
  if (!value.has_value() || *value < 0) {
    fail(name, "metadata.total_size must be a number of bytes");
  }
  return value;
}

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view name) {
  JsonLimits limits;
  limits.max_bytes = int64_t{64} << 20;  // 190,000 tensors take about 20 MB
  Json json = parse_json(text, name, limits);
  if (!json.is_object()) {
    fail(name, "must be a JSON object");
  }
  CheckpointIndex index;
  index.total_size = total_size(json, name);
  for (auto& [key, map] : json.members()) {
    if (key != "weight_map") {
      continue;
    }
    for (auto& [tensor, shard] : map.members()) {
      if (!shard.is_string() || !is_plain_file_name(shard.text())) {
        fail(name,
             str_cat("weight_map places tensor ", quoted(tensor), " in ",
                     shard.is_string() ? quoted(shard.text()) : dump_compact(shard).substr(0, 40),
                     ", expected the plain name of a file in the same folder"));
      }
      index.tensors.push_back({std::move(tensor), shard.text()});
    }
  }
  if (index.tensors.empty()) {
    fail(name, "has no weight_map object that names tensors; not a safetensors index");
  }
  return index;
}

}  // namespace tessera::io
