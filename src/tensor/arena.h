// Scratch memory of a step: allocation is a pointer bump, release is a reset. Blocks stay for the
// next step, so that a repeated step allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"

namespace tessera {

class Arena {
 public:
  Arena() = default;
  // One block of this size at once.
  explicit Arena(int64_t bytes);

  // 64-byte aligned, not initialised, valid until the mark before it is released.
  template <typename T>
  T* allocate(int64_t count) {
    return reinterpret_cast<T*>(allocate_bytes(count * static_cast<int64_t>(sizeof(T))));
  }

  // Everything allocated while it lives is released when it goes.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope() { arena_.release(block_, used_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t block_;
    int64_t used_;
  };

  int64_t capacity_bytes() const { return capacity_; }
  int64_t peak_bytes() const { return peak_; }

 private:
  std::byte* allocate_bytes(int64_t bytes);
  void release(size_t block, int64_t used);

  std::vector<AlignedBuffer> blocks_;
  size_t block_ = 0;    // block in use
  int64_t used_ = 0;    // bytes used of it
  int64_t before_ = 0;  // bytes of the blocks before it
  int64_t capacity_ = 0;
  int64_t peak_ = 0;
};

}  // namespace tessera
