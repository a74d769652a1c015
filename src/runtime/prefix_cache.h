// States of earlier requests, so that what begins alike is computed once: a radix tree over blocks
// of tokens. Internal to the runtime; belongs to whoever holds the model.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/deepseek_v41/state.h"

namespace tessera {

// A picture's positions in a sequence and what stands there.
struct PlacedPicture {
  int64_t start = 0;
  int64_t length = 0;
  std::string content_key;  // intake/content_key.h

  bool operator==(const PlacedPicture&) const = default;
};

// What a state depends on, and so what it is kept under: compared in full, never by a hash alone.
struct PrefixKey {
  std::string_view tenant;  // whose requests may use it
  std::span<const int32_t> ids;
  std::span<const PlacedPicture>
      pictures;  // ascending; those that begin behind the ids are ignored
};

struct PrefixStatistics {
  int64_t snapshots = 0;
  int64_t bytes = 0;
  int64_t evicted = 0;  // snapshots, since the cache was made
};

// A node holds the compressed rows of one block of tokens; a snapshot holds the rest of a state
// (window rings, open groups, history, the pages behind the last whole block) at any position, and
// hangs on the node of the block before it. States that share a beginning share its nodes. A
// snapshot in the middle of a prompt may lack the rings of the later layers (step.h); it is found
// only for prompts that are long enough to do without them.
class PrefixCache {
 public:
  // `max_bytes`: of snapshots and of the pages that nodes hold; 0: nothing is kept.
  PrefixCache(const deepseek_v41::Config& config, deepseek_v41::CachePools& pools,
              int64_t max_bytes);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  bool is_on() const { return max_bytes_ > 0; }

  // The latest state from which a prompt of exactly these tokens and pictures can be computed to
  // its end, at least one token before it; nothing without one.
  std::optional<deepseek_v41::SequenceState> find(const PrefixKey& prompt);

  // Keeps the state, whose tokens are the first state.position of the key's, and drops what was
  // used longest ago when there is no room.
  void keep(const deepseek_v41::SequenceState& state, const PrefixKey& key);

  // Drops what was used longest ago until so many pages of each pool are free, or nothing is left.
  void make_room(int64_t pages);

  PrefixStatistics statistics() const;

 private:
  struct Node;
  struct Snapshot;
  using Snapshots = std::list<Snapshot>;

  PrefixKey block(const PrefixKey& key, int64_t depth) const;
  Node* child(const Node& parent, const PrefixKey& block) const;
  Node* grow(Node& parent, const PrefixKey& block, const deepseek_v41::SequenceState& state);
  deepseek_v41::SequenceState assemble(const Snapshot& snapshot) const;
  bool drop_oldest();
  void use(Node* node);
  void prune(Node* node);

  const deepseek_v41::Config& config_;
  deepseek_v41::CachePools& pools_;
  int64_t max_bytes_;
  int64_t block_tokens_;  // fill whole pages of every source
  int64_t bytes_ = 0;
  int64_t evicted_ = 0;
  Snapshots snapshots_;                                              // latest use first
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;  // by tenant
};

}  // namespace tessera
