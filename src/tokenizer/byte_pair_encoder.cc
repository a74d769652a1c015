#include "tokenizer/byte_pair_encoder.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tessera {
namespace {

// Up to this many bytes a scan for the best pair is faster than a heap.
constexpr size_t kShortPiece = 48;
// Bits of the filter for each slot: 1 in 16 of the pairs that are no merge passes.
constexpr size_t kFilterBits = 8;
constexpr int32_t kNone = -1;

// The parts of a long piece and the pairs that may be merged next. A pair is named by its left
// part. Only a pair that comes before both of its neighbours, by rank and then place, can be the
// next: those are queued. Most pairs never get there, and of a run of one letter, whose pairs are
// all equal, one at a time is.
class PairQueue {
 public:
  using Part = BytePairEncoder::Scratch::Part;

  explicit PairQueue(BytePairEncoder::Scratch& scratch) : scratch_(scratch) {
    scratch.parts.clear();
    scratch.queue.clear();
  }

  Part& part(int32_t i) { return scratch_.parts[static_cast<size_t>(i)]; }

  bool is_before(int32_t i, int32_t other) { return key(i) < key(other); }

  void push_if_first(int32_t i) {
    const Part& pair = part(i);
    if (pair.rank != kNone && (pair.previous == kNone || is_before(i, pair.previous)) &&
        is_before(i, pair.next)) {
      scratch_.queue.push_back(key(i));
      std::push_heap(scratch_.queue.begin(), scratch_.queue.end(), std::greater<>());
      ++scratch_.queued;
    }
  }

  // The first pair, or kNone. Entries whose pair has changed since are left out.
  int32_t pop() {
    std::vector<uint64_t>& queue = scratch_.queue;
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), std::greater<>());
      const uint64_t top = queue.back();
      queue.pop_back();
      const int32_t left = static_cast<int32_t>(top & UINT32_MAX);
      if (key(left) == top) {
        return left;
      }
    }
    return kNone;
  }

 private:
  // No merge (-1) is the last rank.
  uint64_t key(int32_t i) {
    return static_cast<uint64_t>(static_cast<uint32_t>(part(i).rank)) << 32 |
           static_cast<uint32_t>(i);
  }

  BytePairEncoder::Scratch& scratch_;
};

}  // namespace

BytePairEncoder::BytePairEncoder(const std::array<int32_t, 256>& byte_ids,
                                 const std::vector<Merge>& merges)
    : byte_ids_(byte_ids) {
  const size_t size = std::bit_ceil(std::max<size_t>(64 / kFilterBits, merges.size() * 2));
  slots_.resize(size);
  mask_ = size - 1;
  slot_shift_ = 64 - std::countr_zero(size);
  filter_.resize(size * kFilterBits / 64);
  filter_shift_ = slot_shift_ - std::countr_zero(kFilterBits);
  merged_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const uint64_t pair = pair_of(merge.left, merge.right);
    const uint64_t hash = hash_of(pair);
    size_t index = hash >> slot_shift_;
    while (slots_[index].rank >= 0) {
      index = (index + 1) & mask_;
    }
    slots_[index] = {pair, static_cast<int32_t>(merged_.size())};
    filter_[hash >> filter_shift_ >> 6] |= uint64_t{1} << (hash >> filter_shift_ & 63U);
    merged_.push_back(merge.merged);
  }
}

void BytePairEncoder::encode(std::string_view piece, std::vector<int32_t>& ids,
                             Scratch& scratch) const {
  if (piece.size() <= kShortPiece) {
    encode_short(piece, ids);
  } else {
    encode_long(piece, ids, scratch);
  }
}

void BytePairEncoder::encode_short(std::string_view piece, std::vector<int32_t>& ids) const {
  constexpr uint32_t kNoRank = UINT32_MAX;
  int32_t parts[kShortPiece];
  uint32_t ranks[kShortPiece];  // of the pair (i, i+1); -1 becomes kNoRank
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) {
    parts[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  }
  for (size_t i = 0; i + 1 < count; ++i) {
    ranks[i] = static_cast<uint32_t>(rank(parts[i], parts[i + 1]));
  }
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      best = ranks[i] < ranks[best] ? i : best;
    }
    if (ranks[best] == kNoRank) {
      break;
    }
    parts[best] = merged_[ranks[best]];
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      parts[i] = parts[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (best + 1 < count) {
      ranks[best] = static_cast<uint32_t>(rank(parts[best], parts[best + 1]));
    }
    if (best > 0) {
      ranks[best - 1] = static_cast<uint32_t>(rank(parts[best - 1], parts[best]));
    }
  }
  ids.insert(ids.end(), parts, parts + count);
}

void BytePairEncoder::encode_long(std::string_view piece, std::vector<int32_t>& ids,
                                  Scratch& scratch) const {
  PairQueue pairs(scratch);
  const auto look_up = [&](int32_t i) {
    const int32_t next = pairs.part(i).next;
    pairs.part(i).rank = next == kNone ? kNone : rank(pairs.part(i).id, pairs.part(next).id);
  };
  const int32_t count = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    scratch.parts.push_back({byte_ids_[static_cast<unsigned char>(piece[static_cast<size_t>(i)])],
                             i - 1, i + 1 < count ? i + 1 : kNone, kNone});
  }
  for (int32_t i = 0; i < count; ++i) {
    look_up(i);
  }
  for (int32_t i = 0; i < count; ++i) {
    pairs.push_if_first(i);
  }
  for (int32_t left = pairs.pop(); left != kNone; left = pairs.pop()) {
    // before, previous, left + gone, next: both pairs beside the merged one are new, and the pairs
    // beside those are queued when they waited for the old ones.
    PairQueue::Part& merged = pairs.part(left);
    PairQueue::Part& gone = pairs.part(merged.next);
    const int32_t previous = merged.previous;
    const int32_t next = gone.next;
    const int32_t before = previous == kNone ? kNone : pairs.part(previous).previous;
    const bool frees_before = before != kNone && pairs.is_before(previous, before);
    const bool frees_next = next != kNone && pairs.is_before(merged.next, next);
    merged.id = merged_[static_cast<size_t>(merged.rank)];
    merged.next = next;
    gone.rank = kNone;
    look_up(left);
    if (next != kNone) {
      pairs.part(next).previous = left;
    }
    if (previous != kNone) {
      look_up(previous);
      pairs.push_if_first(previous);
    }
    pairs.push_if_first(left);
    if (frees_before) {
      pairs.push_if_first(before);
    }
    if (frees_next) {
      pairs.push_if_first(next);
    }
  }
  for (int32_t i = 0; i != kNone; i = pairs.part(i).next) {
    ids.push_back(pairs.part(i).id);
  }
}

}  // namespace tessera
