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
      int32_t rank;      // of the pair with the part to the right, -1: none
    };
    std::vector<Part> parts;
    std::vector<uint64_t> queue;  // heap of rank << 32 | part
    int64_t queued = 0;           // entries ever put into the queue: at most 3 for each byte
  };

  // Appends the tokens of `piece`, shorter than 2 GiB; takes O(n log n) for n bytes.
  void encode(std::string_view piece, std::vector<int32_t>& ids, Scratch& scratch) const;

  // Position of the pair in `merges`, or -1.
  int32_t rank(int32_t left, int32_t right) const {
    const uint64_t pair = pair_of(left, right);
    const uint64_t hash = hash_of(pair);
    const uint64_t bit = hash >> filter_shift_;
    if ((filter_[bit >> 6] >> (bit & 63U) & 1U) == 0) {
      return -1;
    }
    size_t index = hash >> slot_shift_;
    while (slots_[index].pair != pair && slots_[index].rank >= 0) {
      index = (index + 1) & mask_;
    }
    return slots_[index].pair == pair ? slots_[index].rank : -1;
  }

 private:
  struct Slot {
    uint64_t pair = 0;
    int32_t rank = -1;  // -1: free
  };

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t hash_of(uint64_t pair) { return pair * 0x9e3779b97f4a7c15U; }
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids, Scratch& scratch) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<int32_t> merged_;  // by rank
  std::vector<Slot> slots_;      // open addressing by the upper bits of the hash, half full at most
  size_t mask_;
  int slot_shift_;
  // One bit per value of the upper bits of the hash: set where a merge has them. Most pairs are no
  // merge, and this fits a second-level cache where the slots do not.
  std::vector<uint64_t> filter_;
  int filter_shift_;
};

}  // namespace tessera
