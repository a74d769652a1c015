// Move-only bytes, 64-byte aligned, not initialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {

constexpr int64_t kAlignment = 64;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws Error{out_of_memory} when the system refuses.
  explicit AlignedBuffer(int64_t bytes) : bytes_(bytes) {
    if (bytes > 0) {
      void* made =
          ::operator new (static_cast<size_t>(bytes), std::align_val_t{kAlignment}, std::nothrow);
      if (made == nullptr) {
        throw Error(ErrorCode::out_of_memory, str_cat("cannot allocate ", bytes,
                                                      " bytes; close other programs or use a "
                                                      "smaller context"));
      }
      data_.reset(static_cast<std::byte*>(made));
    }
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

}  // namespace tessera
