#include "tensor/arena.h"

#include <algorithm>

#include "base/checked_math.h"

namespace tessera {
namespace {
constexpr int64_t kSmallestBlock = 1 << 20;
}

Arena::Arena(int64_t bytes) {
  if (bytes > 0) {
    blocks_.emplace_back(bytes);
    capacity_ = bytes;
  }
}

std::byte* Arena::allocate_bytes(int64_t bytes) {
  const int64_t rounded = std::max(round_up(bytes, kAlignment), kAlignment);
  while (block_ < blocks_.size() && used_ + rounded > blocks_[block_].bytes()) {
    before_ += blocks_[block_].bytes();
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(std::max({rounded, kSmallestBlock, capacity_ / 2}));
    capacity_ += blocks_.back().bytes();
  }
  std::byte* made = blocks_[block_].data() + used_;
  used_ += rounded;
  peak_ = std::max(peak_, before_ + used_);
  return made;
}

void Arena::release(size_t block, int64_t used) {
  while (block_ > block) {
    --block_;
    before_ -= blocks_[block_].bytes();
  }
  used_ = used;
}

}  // namespace tessera
