// Token strings by id, and ids by string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class Vocabulary {
 public:
  // `tokens`: number expected, for memory only.
  explicit Vocabulary(size_t tokens);

  // False if the string or the id is taken. `id` is not negative; ids may leave gaps.
  bool add(int32_t id, std::string_view text);

  std::optional<int32_t> find(std::string_view text) const;
  bool contains(int32_t id) const {
    return id >= 0 && id < size() && texts_[static_cast<size_t>(id)].size != kAbsent;
  }
  // Empty for an id without token.
  std::string_view text(int32_t id) const {
    return contains(id) ? text(texts_[static_cast<size_t>(id)]) : std::string_view();
  }
  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Place {
    uint64_t begin = 0;
    uint32_t size = kAbsent;
  };

  struct Slot {
    uint32_t hash = 0;  // the upper half, so that most strings are told apart without a look
    int32_t id = -1;    // -1: free
  };

  std::string_view text(const Place& place) const {
    return {pool_.data() + place.begin, place.size};
  }
  size_t slot(std::string_view wanted, uint64_t hash) const;
  void grow();

  std::string pool_;  // all strings
  std::vector<Place> texts_;
  std::vector<Slot> slots_;  // open addressing by the lower half of the hash, at most half full
  size_t count_ = 0;
};

}  // namespace tessera
