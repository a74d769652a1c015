// Byte-pair encoding (Sennrich et al. 2016) of one piece of text: its bytes become tokens, then the
// adjacent pair with the lowest rank is merged, the leftmost one among equals, until none is left.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

class BytePairEncoder {
 public:
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
  };

  // `byte_ids`: the token of every single byte. `merges`: in order of rank, pairs distinct.
  BytePairEncoder(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges);

  // Buffers of encode(), so that pieces do not allocate. One per thread.
  struct Scratch {
    struct Part {
      int32_t id;
      int32_t previous;  // part to the left, -1: none
      int32_t next;      // part to the right, -1: none
    };
    std::vector<Part> parts;
    std::vector<uint64_t> queue;  // heap of rank << 32 | part
  };

  // Appends the tokens of `piece`, shorter than 2 GiB; takes O(n log n) for n bytes.
  void encode(std::string_view piece, std::vector<int32_t>& ids, Scratch& scratch) const;

  // Position of the pair in `merges`, or -1.
  int32_t rank(int32_t left, int32_t right) const { return find(left, right).rank; }

 private:
  struct Slot {
    uint64_t pair;  // left << 32 | right
    int32_t rank;
    int32_t merged;
  };

  const Slot& find(int32_t left, int32_t right) const {
    const uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    size_t index = first_slot(pair);
    while (slots_[index].pair != pair && slots_[index].rank >= 0) {
      index = (index + 1) & mask_;
    }
    return slots_[index].pair == pair ? slots_[index] : kNoSlot;
  }
  size_t first_slot(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9e3779b97f4a7c15U) >> shift_);
  }
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids, Scratch& scratch) const;

  static constexpr Slot kNoSlot = {0, -1, -1};

  std::array<int32_t, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, at most half full; rank -1: free
  size_t mask_;
  int shift_;
};

}  // namespace tessera
