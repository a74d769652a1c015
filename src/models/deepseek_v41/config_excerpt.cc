#include "models/deepseek_v41/config_excerpt.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/config.h"
#include "ops/engram/engram.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostRows = int64_t{1} << 39;  // of an Engram table

// Key names of the two dialects of config.json.
struct Names {
  const char *layers, *stages, *kv_sources, *index_sources, *candidate_source;
};
constexpr Names kNested = {"num_hidden_layers", "num_nextn_predict_layers", "kv_source_layer_ids",
                           "index_source_layer_ids", "candidate_source_layer_id"};
constexpr Names kFlat = {"n_layers", "n_mtp_layers", "kv_source_layers", "index_source_layers",
                         "candidate_source_layer"};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::bad_request, what); }

io::Json json_of(const std::vector<int64_t>& numbers) {
  io::Json list = io::Json::array();
  for (const int64_t number : numbers) {
    list.items().push_back(io::Json::number(number));
  }
  return list;
}

bool has(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// New number of a layer, or -1.
int64_t place_of(const std::vector<int64_t>& kept, int64_t layer) {
  const auto found = std::find(kept.begin(), kept.end(), layer);
  return found == kept.end() ? -1 : found - kept.begin();
}

// New numbers of those of `layers` that are kept.
std::vector<int64_t> renumbered(const std::vector<int64_t>& kept,
                                const std::vector<int64_t>& layers) {
  std::vector<int64_t> out;
  for (const int64_t layer : layers) {
    if (const int64_t place = place_of(kept, layer); place >= 0) {
      out.push_back(place);
    }
  }
  return out;
}

void check_layers(const Config& c, const std::vector<int64_t>& kept) {
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < 0 || kept[i] >= c.layers) {
      refuse(str_cat("--keep-layers: there is no layer ", kept[i], ", the model has layers 0 to ",
                     c.layers - 1));
    }
    if (i > 0 && kept[i] <= kept[i - 1]) {
      refuse(str_cat("--keep-layers: ", kept[i], " stands behind ", kept[i - 1],
                     ", expected ascending layers, each once"));
    }
  }
  for (const int64_t layer : kept) {
    if (c.ratio(layer) == 0) {
      continue;
    }
    const int64_t entries = c.kv_sources[static_cast<size_t>(c.kv_source_of(layer))];
    if (!has(kept, entries)) {
      refuse(str_cat("--keep-layers: layer ", layer, " reads the entries of layer ", entries,
                     ", which is not kept; add ", entries));
    }
    if (const int64_t picks = c.index_source_of(layer); !has(kept, picks)) {
      refuse(str_cat("--keep-layers: layer ", layer, " reads the entries that layer ", picks,
                     " picks, which is not kept; add ", picks));
    }
  }
}

void set_drafts(io::Json& text, const Names& n, const Config& c, const std::vector<int64_t>& kept) {
  const std::vector<int64_t>& targets = c.dspark.target_layers;
  const bool keeps_drafts =
      std::all_of(targets.begin(), targets.end(), [&](int64_t layer) { return has(kept, layer); });
  std::vector<int64_t> ratios;
  for (const int64_t layer : kept) {
    ratios.push_back(c.ratio(layer));
  }
  if (keeps_drafts) {  // the list may have an entry for every stage
    const size_t entries = text.find("compress_ratios")->items().size();
    ratios.resize(ratios.size() + entries - static_cast<size_t>(c.layers), 0);
  } else {
    text.set(n.stages, io::Json::number(int64_t{0}));
  }
  text.set("compress_ratios", json_of(ratios));
  text.set("dspark_target_layer_ids",
           json_of(keeps_drafts ? renumbered(kept, targets) : std::vector<int64_t>()));
}

void keep_layers(io::Json& text, const Names& n, const Config& c,
                 const std::vector<int64_t>& kept) {
  check_layers(c, kept);
  text.set(n.layers, io::Json::number(static_cast<int64_t>(kept.size())));
  text.set(n.kv_sources, json_of(renumbered(kept, c.kv_sources)));
  text.set(n.index_sources, json_of(renumbered(kept, c.index_sources)));
  text.set(n.candidate_source, io::Json::number(place_of(kept, c.candidate_source)));
  text.set("engram_layer_ids", json_of(renumbered(kept, c.engram.layers)));
  set_drafts(text, n, c, kept);
}

// The rows of the tables are the sums of the primes that their memories use.
void set_engram(io::Json& text, const Config& c, int64_t vocab_size) {
  const int64_t memories = static_cast<int64_t>(text.find("engram_layer_ids")->items().size());
  std::vector<int64_t> rows;
  for (const std::vector<int64_t>& primes :
       engram_primes(memories, c.engram.max_ngram, c.engram.heads, vocab_size)) {
    rows.push_back(std::accumulate(primes.begin(), primes.end(), int64_t{0}));
  }
  text.set("engram_vocab_size", io::Json::number(vocab_size));
  text.set("engram_num_embeddings", json_of(rows));
}

}  // namespace

io::Json excerpt_config(const io::Json& config, const std::string& name,
                        const ConfigExcerpt& excerpt) {
  const Config c = parse_config(config, name);
  io::Json out = config;
  const bool is_nested = out.find("text_config") != nullptr;
  io::Json* text = &out;
  for (io::Json::Member& member : out.members()) {
    text = is_nested && member.first == "text_config" ? &member.second : text;
  }
  if (!excerpt.layers.empty()) {
    keep_layers(*text, is_nested ? kNested : kFlat, c, excerpt.layers);
  }
  if (excerpt.experts.has_value()) {
    if (*excerpt.experts < c.active_experts) {
      refuse(str_cat("--experts ", *excerpt.experts, ": expected at least ", c.active_experts,
                     ", which are active for every token"));
    }
    text->set("n_routed_experts", io::Json::number(*excerpt.experts));
  }
  const bool has_fewer_memories =
      text->find("engram_layer_ids")->items().size() != c.engram.layers.size();
  if (excerpt.engram_vocab.has_value() || has_fewer_memories) {
    const int64_t vocab_size = excerpt.engram_vocab.value_or(c.engram.vocab_size);
    const int64_t most = kMostRows / c.engram.columns();
    if (vocab_size < 2 || vocab_size > most) {
      refuse(str_cat("--engram-vocab ", vocab_size, ": expected 2 to ", most));
    }
    set_engram(*text, c, vocab_size);
  }
  parse_config(out, str_cat(name, " as rewritten"));
  return out;
}

std::vector<int64_t> parse_layer_list(const std::string& text) {
  std::vector<int64_t> layers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = std::string_view(text).substr(begin, end - begin);
    const size_t dash = item.find('-');
    int64_t first = 0;
    int64_t last = 0;
    const bool is_range = dash != std::string_view::npos;
    if (!parse_number(item.substr(0, dash), first) ||
        !parse_number(is_range ? item.substr(dash + 1) : item, last) || first < 0 || last < first ||
        last > kMostLayers) {
      refuse(str_cat("--keep-layers ", tessera::quoted(text), ": ", tessera::quoted(item),
                     " is no layer; expected a list like 1,2,20,24 or 0-7,20"));
    }
    for (int64_t layer = first; layer <= last; ++layer) {
      layers.push_back(layer);
    }
    begin = end + 1;
  }
  return layers;
}

}  // namespace tessera::deepseek_v41
