// io/checkpoint_index.h: no accepted shard name leaves the checkpoint's folder.
#include "fuzz/target.h"
#include "io/checkpoint_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tessera::io::CheckpointIndex;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<CheckpointIndex> index = tessera::fuzz::parse_or_refuse(
      [&] { return tessera::io::parse_checkpoint_index(text, "input"); });
  if (index.has_value()) {
    TESSERA_CHECK(!index->tensors.empty() && index->total_size.value_or(0) >= 0);
    for (const CheckpointIndex::Tensor& tensor : index->tensors) {
      TESSERA_CHECK(!tensor.shard.empty() && tensor.shard != "." && tensor.shard != "..");
      TESSERA_CHECK(tensor.shard.find('/') == std::string::npos);
    }
  }
  return 0;
}
