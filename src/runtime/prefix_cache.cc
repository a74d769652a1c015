#include "runtime/prefix_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "models/deepseek_v41/step.h"

namespace tessera {
namespace {

using deepseek_v41::SequenceState;

constexpr int64_t kLeastBlock = 128;     // tokens
constexpr std::byte kNotComputed{0xff};  // NaN as a code and as a scale

int64_t choose_block(const deepseek_v41::Config& config) {
  int64_t block = kLeastBlock;
  for (const int64_t source : config.kv_sources) {
    block = std::lcm(block, kPageRows * config.ratio(source));
  }
  return block;
}

// Pictures of which any position lies in [begin, end).
std::span<const PlacedPicture> touching(std::span<const PlacedPicture> pictures, int64_t begin,
                                        int64_t end) {
  const auto first = std::find_if(pictures.begin(), pictures.end(), [&](const PlacedPicture& p) {
    return p.start + p.length > begin;
  });
  const auto last =
      std::find_if(first, pictures.end(), [&](const PlacedPicture& p) { return p.start >= end; });
  return {first, last};
}

uint64_t hash(const PrefixKey& block) {
  uint64_t h = XXH3_64bits(block.ids.data(), block.ids.size_bytes());
  for (const PlacedPicture& picture : block.pictures) {
    h = XXH3_64bits_withSeed(picture.content_key.data(), picture.content_key.size(), h);
  }
  return h;
}

// Tokens and the pictures among them.
struct Content {
  std::vector<int32_t> ids;
  std::vector<PlacedPicture> pictures;

  explicit Content(const PrefixKey& key)
      : ids(key.ids.begin(), key.ids.end()), pictures(key.pictures.begin(), key.pictures.end()) {}
  bool operator==(const PrefixKey& key) const {
    return std::ranges::equal(ids, key.ids) && std::ranges::equal(pictures, key.pictures);
  }
  int64_t bytes() const {
    return static_cast<int64_t>(ids.size() * sizeof(int32_t) +
                                pictures.size() * sizeof(PlacedPicture));
  }
};

// Calls visit(table of the state, pages of one block) for every cache of the model.
template <typename State, typename Visit>
void each_table(const deepseek_v41::Config& config, State& state, int64_t block_tokens,
                const Visit& visit) {
  for (size_t source = 0; source < config.kv_sources.size(); ++source) {
    const int64_t pages = block_tokens / config.ratio(config.kv_sources[source]) / kPageRows;
    visit(state.kv[source], pages);
    visit(state.index_keys[source], pages);
  }
}

}  // namespace

struct PrefixCache::Snapshot {
  Node* node;           // of the last whole block before it
  Content tail;         // behind that block
  SequenceState state;  // only the pages behind that block; rings of the first layers if the later
                        // ones are not complete

  int64_t bytes() const { return tail.bytes() + state.bytes(); }
};

struct PrefixCache::Node {
  Node* parent;   // nullptr: a root, which has no block
  int64_t depth;  // blocks up to here, this one included
  uint64_t key;
  Content content;
  std::vector<PageTable> tables;  // the block's pages, in the order of each_table
  std::unordered_multimap<uint64_t, std::unique_ptr<Node>> children;
  std::vector<Snapshots::iterator> snapshots;

  int64_t bytes() const {
    int64_t total = content.bytes();
    for (const PageTable& table : tables) {
      total += table.page_count() * table.layout().page_bytes();
    }
    return total;
  }
};

PrefixCache::PrefixCache(const deepseek_v41::Config& config, deepseek_v41::CachePools& pools,
                         int64_t max_bytes)
    : config_(config), pools_(pools), max_bytes_(max_bytes), block_tokens_(choose_block(config)) {}

PrefixCache::~PrefixCache() = default;

// The part of a key that the block behind `depth` blocks has; shorter where the key ends.
PrefixKey PrefixCache::block(const PrefixKey& key, int64_t depth) const {
  const int64_t begin = depth * block_tokens_;
  const int64_t end = std::min(begin + block_tokens_, static_cast<int64_t>(key.ids.size()));
  return {.tenant = key.tenant,
          .ids = key.ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          .pictures = touching(key.pictures, begin, end)};
}

PrefixCache::Node* PrefixCache::child(const Node& parent, const PrefixKey& block) const {
  const auto [first, last] = parent.children.equal_range(hash(block));
  const auto found =
      std::find_if(first, last, [&](const auto& entry) { return entry.second->content == block; });
  return found == last ? nullptr : found->second.get();
}

PrefixCache::Node* PrefixCache::grow(Node& parent, const PrefixKey& block,
                                     const SequenceState& state) {
  auto node = std::make_unique<Node>(Node{.parent = &parent,
                                          .depth = parent.depth + 1,
                                          .key = hash(block),
                                          .content = Content(block),
                                          .tables = {},
                                          .children = {},
                                          .snapshots = {}});
  each_table(config_, state, block_tokens_, [&](const PageTable& table, int64_t pages) {
    node->tables.push_back(table.share(parent.depth * pages, pages));
  });
  bytes_ += node->bytes();
  Node* const made = node.get();
  parent.children.emplace(made->key, std::move(node));
  return made;
}

std::optional<SequenceState> PrefixCache::find(const PrefixKey& prompt) {
  const auto root = roots_.find(prompt.tenant);
  if (root == roots_.end()) {
    return std::nullopt;
  }
  const int64_t total = static_cast<int64_t>(prompt.ids.size());
  const Snapshot* best = nullptr;
  for (Node* node = root->second.get(); node != nullptr;) {
    for (const Snapshots::iterator snapshot : node->snapshots) {
      const SequenceState& state = snapshot->state;
      const bool is_later =
          state.position < total && (best == nullptr || best->state.position < state.position);
      const int64_t begin = node->depth * block_tokens_;
      if (is_later && deepseek_v41::can_reach(config_, state, total, 1) &&
          snapshot->tail ==
              block({prompt.tenant, prompt.ids.first(static_cast<size_t>(state.position)),
                     prompt.pictures},
                    begin / block_tokens_)) {
        best = &*snapshot;
      }
    }
    const bool has_block = total - node->depth * block_tokens_ >= block_tokens_;
    node = has_block ? child(*node, block(prompt, node->depth)) : nullptr;
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  use(best->node);
  return assemble(*best);
}

// The state with all its pages.
SequenceState PrefixCache::assemble(const Snapshot& snapshot) const {
  std::vector<const Node*> path;
  for (const Node* node = snapshot.node; node->parent != nullptr; node = node->parent) {
    path.push_back(node);
  }
  SequenceState state = snapshot.state;
  state.rings.resize(static_cast<size_t>(config_.layers * deepseek_v41::ring_layer_bytes(config_)),
                     kNotComputed);
  size_t i = 0;
  each_table(config_, state, block_tokens_, [&](PageTable& table, int64_t) {
    PageTable tail = std::move(table);
    table = path.empty() ? tail.share(0, 0) : path.back()->tables[i];
    for (size_t k = path.size(); k-- > 1;) {
      table.append(path[k - 1]->tables[i]);
    }
    table.append(tail);
    ++i;
  });
  return state;
}

// The snapshots of a node and of all before it come first in the order of use, so that a tree loses
// its leaves before its trunk.
void PrefixCache::use(Node* node) {
  for (; node != nullptr; node = node->parent) {
    for (const Snapshots::iterator snapshot : node->snapshots) {
      snapshots_.splice(snapshots_.begin(), snapshots_, snapshot);
    }
  }
}

void PrefixCache::keep(const SequenceState& state, const PrefixKey& key) {
  if (!is_on() || state.position == 0) {
    return;
  }
  const PrefixKey own = {key.tenant, key.ids.first(static_cast<size_t>(state.position)),
                         key.pictures};
  auto root = roots_.find(key.tenant);
  if (root == roots_.end()) {
    auto node = std::make_unique<Node>(Node{.parent = nullptr,
                                            .depth = 0,
                                            .key = 0,
                                            .content = Content(PrefixKey{}),
                                            .tables = {},
                                            .children = {},
                                            .snapshots = {}});
    root = roots_.emplace(std::string(key.tenant), std::move(node)).first;
  }
  Node* node = root->second.get();
  const int64_t blocks = state.position / block_tokens_;
  while (node->depth < blocks) {
    const PrefixKey next = block(own, node->depth);
    Node* const known = child(*node, next);
    node = known != nullptr ? known : grow(*node, next, state);
  }
  const PrefixKey tail = block(own, blocks);
  for (const Snapshots::iterator known : node->snapshots) {
    if (known->tail == tail) {
      if (known->state.is_complete(config_) || !state.is_complete(config_)) {
        return use(node);
      }
      const Snapshots::iterator half = known;  // a complete one takes its place
      bytes_ -= half->bytes();
      std::erase(node->snapshots, half);
      snapshots_.erase(half);
      break;
    }
  }
  snapshots_.push_front({.node = node, .tail = Content(tail), .state = state});
  SequenceState& kept = snapshots_.front().state;
  each_table(config_, kept, block_tokens_, [&](PageTable& table, int64_t pages) {
    table = table.share(blocks * pages, table.page_count() - blocks * pages);
  });
  if (!kept.is_complete(config_)) {
    const int64_t layers = deepseek_v41::first_thinned_layer(config_);
    kept.rings.resize(static_cast<size_t>(layers * deepseek_v41::ring_layer_bytes(config_)));
    kept.rings.shrink_to_fit();
    std::fill(kept.ring_begin.begin() + layers, kept.ring_begin.end(), kept.position);
  }
  node->snapshots.push_back(snapshots_.begin());
  bytes_ += snapshots_.front().bytes();
  use(node);
  while (bytes_ > max_bytes_ && drop_oldest()) {
  }
}

// Removes a node that leads to no snapshot, and those before it that then lead to none.
void PrefixCache::prune(Node* node) {
  while (node->snapshots.empty() && node->children.empty()) {
    Node* const parent = node->parent;
    if (parent == nullptr) {
      std::erase_if(roots_, [&](const auto& root) { return root.second.get() == node; });
      return;
    }
    bytes_ -= node->bytes();
    const auto [first, last] = parent->children.equal_range(node->key);
    parent->children.erase(
        std::find_if(first, last, [&](const auto& entry) { return entry.second.get() == node; }));
    node = parent;
  }
}

void PrefixCache::make_room(int64_t pages) {
  const auto is_short = [pages](const PagePool& pool) {
    return pool.pages() > 0 && pool.free_pages() < pages;
  };
  while ((is_short(pools_.kv) || is_short(pools_.index_keys)) && drop_oldest()) {
  }
}

bool PrefixCache::drop_oldest() {
  if (snapshots_.empty()) {
    return false;
  }
  const auto oldest = std::prev(snapshots_.end());
  Node* const node = oldest->node;
  bytes_ -= oldest->bytes();
  std::erase(node->snapshots, oldest);
  snapshots_.erase(oldest);
  ++evicted_;
  prune(node);
  return true;
}

PrefixStatistics PrefixCache::statistics() const {
  return {
      .snapshots = static_cast<int64_t>(snapshots_.size()), .bytes = bytes_, .evicted = evicted_};
}

}  // namespace tessera
