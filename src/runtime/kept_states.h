// States of earlier requests, so that a conversation goes on where it stood. Internal to the
// runtime.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
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

class KeptStates {
 public:
  explicit KeptStates(int64_t most) : most_(most) {}

  bool is_on() const { return most_ > 0; }

  // The longest kept state of this tenant whose tokens and pictures `ids` begins with, at least one
  // token short of all of them; nullptr without one. Valid until the next call.
  const deepseek_v41::SequenceState* find(std::span<const int32_t> ids,
                                          std::span<const PlacedPicture> pictures,
                                          std::string_view tenant = "");

  // Keeps a copy of `state`, whose tokens are the first state.position ids.
  void keep(const deepseek_v41::SequenceState& state, std::span<const int32_t> ids,
            std::span<const PlacedPicture> pictures, std::string_view tenant = "");

  // Drops the state that was used longest ago; false when none is left.
  bool drop_oldest();

 private:
  struct Entry {
    deepseek_v41::SequenceState state;
    std::vector<int32_t> ids;             // [state.position]
    std::vector<PlacedPicture> pictures;  // that start before state.position
    std::string tenant;                   // whose requests may use it

    bool begins(std::span<const int32_t> other,
                std::span<const PlacedPicture> other_pictures) const;
  };

  int64_t most_;
  std::list<Entry> entries_;  // latest use first
};

}  // namespace tessera
