#include "tokenizer/byte_pair_encoder.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tessera {
namespace {

// Up to this many bytes a scan for the best pair is faster than a heap.
constexpr size_t kShortPiece = 48;
constexpr int32_t kNone = -1;

}  // namespace

BytePairEncoder::BytePairEncoder(const std::array<int32_t, 256>& byte_ids,
                                 const std::vector<Merge>& merges)
    : byte_ids_(byte_ids) {
  const size_t size = std::bit_ceil(std::max<size_t>(2, merges.size() * 2));
  slots_.assign(size, kNoSlot);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(merge.left)) << 32 |
                          static_cast<uint32_t>(merge.right);
    size_t index = first_slot(pair);
    while (slots_[index].rank >= 0) {
      index = (index + 1) & mask_;
    }
    slots_[index] = {pair, static_cast<int32_t>(rank), merge.merged};
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
  int32_t merged[kShortPiece];
  size_t count = piece.size();
  const auto look_up = [&](size_t i) {
    if (i + 1 < count) {
      const Slot& slot = find(parts[i], parts[i + 1]);
      ranks[i] = static_cast<uint32_t>(slot.rank);
      merged[i] = slot.merged;
    } else {
      ranks[i] = kNoRank;
    }
  };
  for (size_t i = 0; i < count; ++i) {
    parts[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  }
  for (size_t i = 0; i < count; ++i) {
    look_up(i);
  }
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      best = ranks[i] < ranks[best] ? i : best;
    }
    if (ranks[best] == kNoRank) {
      break;
    }
    parts[best] = merged[best];
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      parts[i] = parts[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    look_up(best);
    if (best > 0) {
      look_up(best - 1);
    }
  }
  ids.insert(ids.end(), parts, parts + count);
}

void BytePairEncoder::encode_long(std::string_view piece, std::vector<int32_t>& ids,
                                  Scratch& scratch) const {
  std::vector<Scratch::Part>& parts = scratch.parts;
  std::vector<uint64_t>& queue = scratch.queue;
  parts.clear();
  queue.clear();
  const auto entry = [&](int32_t left) -> uint64_t {
    const int32_t right = parts[static_cast<size_t>(left)].next;
    const int32_t pair_rank = right == kNone ? kNone
                                             : rank(parts[static_cast<size_t>(left)].id,
                                                    parts[static_cast<size_t>(right)].id);
    return pair_rank == kNone
               ? UINT64_MAX
               : static_cast<uint64_t>(pair_rank) << 32 | static_cast<uint32_t>(left);
  };
  const int32_t count = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    parts.push_back({byte_ids_[static_cast<unsigned char>(piece[static_cast<size_t>(i)])], i - 1,
                     i + 1 < count ? i + 1 : kNone});
  }
  for (int32_t i = 0; i < count; ++i) {
    if (const uint64_t pair = entry(i); pair != UINT64_MAX) {
      queue.push_back(pair);
    }
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](int32_t left) {
    if (const uint64_t pair = entry(left); pair != UINT64_MAX) {
      queue.push_back(pair);
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    const int32_t left = static_cast<int32_t>(top & UINT32_MAX);
    Scratch::Part& part = parts[static_cast<size_t>(left)];
    // Entries whose pair has changed since are stale; the new pair has its own entry.
    if (part.id < 0 || entry(left) != top) {
      continue;
    }
    Scratch::Part& gone = parts[static_cast<size_t>(part.next)];
    part.id = find(part.id, gone.id).merged;
    part.next = gone.next;
    gone.id = kNone;
    if (part.next != kNone) {
      parts[static_cast<size_t>(part.next)].previous = left;
    }
    push(left);
    if (part.previous != kNone) {
      push(part.previous);
    }
  }
  for (int32_t i = 0; i != kNone; i = parts[static_cast<size_t>(i)].next) {
    ids.push_back(parts[static_cast<size_t>(i)].id);
  }
}

}  // namespace tessera
