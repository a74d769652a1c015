#include "models/deepseek_v41/inventory.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr std::string_view kNotDrafted =
    "draft stage (DSpark): names, types and shapes checked; not computed, this version does not "
    "speculate";
constexpr std::string_view kNoPictures =
    "router bias of picture rows: checked; never read, the checkpoint has no vision tower";

struct Rule {
  std::string_view prefix;  // of the name, or of what follows "layers.N."
  std::string_view component;
};

// The first prefix that fits decides.
constexpr std::array kTopLevel = {
    Rule{"embed.", "embedding"},      //
    Rule{"vision.", "vision_tower"},  //
    Rule{"aligner.", "aligner"},      //
    Rule{"image_", "image_marks"},    //
    Rule{"norm.", "norms"},           //
    Rule{"head.", "head"},            //
    Rule{"mtp.", "dspark"},           //
};
constexpr std::array kLayer = {
    Rule{"attn_norm.", "norms"},
    Rule{"ffn_norm.", "norms"},
    Rule{"engram.embed.", "engram_tables"},
    Rule{"engram.", "engram"},
    Rule{"hc_", "hyper_connections"},
    Rule{"attn.compressor.", "compressor"},
    Rule{"attn.indexer.", "indexer"},
    Rule{"attn.", "attention"},
    Rule{"ffn.gate.", "routers"},
    Rule{"ffn.experts.", "experts"},
    Rule{"ffn.shared_experts.", "shared_experts"},
};

template <size_t N>
std::string_view first_fit(const std::array<Rule, N>& rules, std::string_view name) {
  for (const Rule& rule : rules) {
    if (name.starts_with(rule.prefix)) {
      return rule.component;
    }
  }
  return "other";
}

std::string_view component_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (name.starts_with(kLayers)) {
    const size_t dot = name.find('.', kLayers.size());
    return first_fit(kLayer, name.substr(std::min(dot, name.size() - 1) + 1));
  }
  if (name.starts_with("mtp.") && name.find(".ffn.experts.") != std::string_view::npos) {
    return "dspark_experts";
  }
  return first_fit(kTopLevel, name);
}

// Of a weight with one E8M0 scale per tile.
std::string fp8_format(const Shape& weight, const Shape& scale, int64_t block) {
  const bool is_per_row = weight.rank() == 2 && scale.rank() == 2 && weight[0] == scale[0];
  return is_per_row ? "fp8 1x32" : str_cat("fp8 ", block, "x", block);
}

std::string format_of(const io::Checkpoint& checkpoint, const io::TensorEntry& entry,
                      const Config& config) {
  const std::string_view name = entry.name;
  const std::string_view stem = name.substr(0, name.rfind('.'));
  switch (entry.dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::i8:
      return "mxfp4";
    case DType::f8_e4m3: {
      const io::TensorEntry* scale = checkpoint.find(str_cat(stem, ".scale"));
      TESSERA_CHECK(scale != nullptr);
      return fp8_format(entry.shape, scale->shape, config.fp8_block);
    }
    case DType::f8_e8m0: {
      const io::TensorEntry* weight = checkpoint.find(str_cat(stem, ".weight"));
      TESSERA_CHECK(weight != nullptr && weight->dtype != DType::f8_e8m0);
      return format_of(checkpoint, *weight, config);
    }
    default:
      return std::string(dtype_name(entry.dtype));
  }
}

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

std::vector<std::string_view> component_names() {
  return {"embedding",     "vision_tower",   "aligner",
          "image_marks",   "norms",          "hyper_connections",
          "engram_tables", "engram",         "attention",
          "compressor",    "indexer",        "routers",
          "experts",       "shared_experts", "head",
          "dspark",        "dspark_experts", "other"};
}

std::vector<InventoryItem> take_inventory(const io::Checkpoint& checkpoint, const Config& config) {
  std::vector<InventoryItem> items;
  items.reserve(static_cast<size_t>(checkpoint.tensor_count()));
  for (const std::string_view name : checkpoint.names()) {
    const io::TensorEntry& entry = *checkpoint.find(name);
    items.push_back({.name = entry.name,
                     .component = component_of(name),
                     .format = format_of(checkpoint, entry, config),
                     .bytes = entry.end - entry.begin,
                     .skipped_because = reason_to_skip(name, config)});
  }
  return items;
}

}  // namespace tessera::deepseek_v41
