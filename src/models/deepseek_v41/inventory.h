// What every tensor of a checkpoint is: the part of the model it belongs to, how its values are
// stored, and whether this engine computes with it.
// Source: checkpoint_v41 specification 4 to 7.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "models/deepseek_v41/config.h"

namespace tessera::deepseek_v41 {

// The published checkpoint with this many tensors and bytes of data, or "".
std::string_view published_name(int64_t tensors, int64_t bytes);

struct InventoryItem {
  std::string_view name;       // borrowed from the checkpoint
  std::string_view component;  // a name of component_names() (catalogue.h)
  // "bf16", "f32", "fp8 32x32" (rows x columns that share a scale), "mxfp4", "nvfp4"; a scale
  // tensor has the format of the weights it belongs to.
  std::string format;
  int64_t bytes = 0;
  std::string_view skipped_because;  // empty: bound and computed with
};

// Every tensor of a checkpoint that bind_weights() has accepted, in sorted order of names. The
// checkpoint outlives the inventory.
std::vector<InventoryItem> take_inventory(const io::Checkpoint& checkpoint, const Config& config);

}  // namespace tessera::deepseek_v41
