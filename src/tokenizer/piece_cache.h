// Finds an earlier piece of the same text with the same bytes, whose tokens can then be copied: a
// text repeats its words. Holds places in the text and in the ids, no copies of them. One per text
// and thread. What it finds is compared byte by byte, so it changes no result.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace tessera {

class PieceCache {
 public:
  // Pieces longer than this are not worth keeping: few repeat.
  static constexpr size_t kLongest = 64;

  // `pieces`: how many will be looked up. Texts of few pieces get a small table.
  PieceCache(std::string_view text, size_t pieces)
      : text_(text),
        entries_(std::bit_ceil(std::clamp<size_t>(pieces, 2, kLargest))),
        shift_(64 - std::countr_zero(entries_.size())) {}

  struct Entry {
    uint32_t begin = 0;      // of the piece in the text
    uint32_t ids_begin = 0;  // of its tokens
    uint16_t size = 0;       // bytes; 0: free
    uint16_t ids_size = 0;
  };

  // The entry where the piece [begin, begin + size) of the text belongs: holds an equal piece when
  // matches(). 1 <= size <= kLongest.
  Entry& entry(size_t begin, size_t size) {
    return entries_[hash(text_.data() + begin, size) >> shift_];
  }
  bool matches(const Entry& entry, size_t begin, size_t size) const {
    return entry.size == size &&
           std::memcmp(text_.data() + entry.begin, text_.data() + begin, size) == 0;
  }

 private:
  static constexpr size_t kLargest = 8192;  // entries: 96 KiB, a part of a second-level cache

  template <typename Word>
  static uint64_t load(const char* bytes) {
    Word word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
  }
  // All bytes go in, some of them twice.
  static uint64_t hash(const char* bytes, size_t size) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15U;
    const char* end = bytes + size;
    uint64_t value = size;
    for (; end - bytes > 8; bytes += 8) {
      value = (value ^ load<uint64_t>(bytes)) * kFactor;
      value ^= value >> 32;
    }
    const uint64_t rest = size >= 8   ? load<uint64_t>(end - 8)
                          : size >= 4 ? load<uint32_t>(bytes) << 32 | load<uint32_t>(end - 4)
                          : size >= 2 ? load<uint16_t>(bytes) << 16 | load<uint16_t>(end - 2)
                                      : load<uint8_t>(bytes);
    return (value ^ rest) * kFactor;
  }

  std::string_view text_;
  std::vector<Entry> entries_;  // one for each value of the hash's upper bits
  int shift_;
};

}  // namespace tessera
