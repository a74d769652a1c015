#include "models/deepseek_v41/inventory.h"

#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/checkpoint_binder.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr std::string_view kNotDrafted =
    "draft stage (DSpark): names, types and shapes checked; not computed, this version does not "
    "speculate";
constexpr std::string_view kNoPictures =
    "router bias of picture rows: checked; never read, the checkpoint has no vision tower";

std::string_view reason_to_skip(std::string_view name, const Config& config) {
  if (name.starts_with("mtp.")) {
    return kNotDrafted;
  }
  if (config.vision.layers == 0 && name.ends_with(".ffn.gate.bias_vl")) {
    return kNoPictures;
  }
  return {};
}

}  // namespace

std::string_view published_name(int64_t tensors, int64_t bytes) {
  if (tensors == 96'085 && bytes == 510'286'023'000) {
    return "DeepSeek-V4.1-Flash";
  }
  if (tensors == 188'245 && bytes == 527'273'322'840) {
    return "DeepSeek-V4.1-Flash-NVFP4";
  }
  return "";
}

std::vector<InventoryItem> take_inventory(const io::Checkpoint& checkpoint, const Config& config) {
  CheckpointBinder binder(checkpoint, config.quantization, Nvfp4Activations::e4m3);
  bind_weights(binder, config);
  std::vector<InventoryItem> items;
  items.reserve(static_cast<size_t>(checkpoint.tensor_count()));
  for (const std::string_view name : checkpoint.names()) {
    const io::TensorEntry& entry = *checkpoint.find(name);
    items.push_back({.name = entry.name,
                     .component = component_of(name),
                     .format = std::string(binder.format_of(name)),
                     .bytes = entry.end - entry.begin,
                     .skipped_because = reason_to_skip(name, config)});
  }
  return items;
}

}  // namespace tessera::deepseek_v41
