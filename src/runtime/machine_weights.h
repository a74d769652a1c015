// Generated weights to time products with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "ops/linear/linear.h"
#include "runtime/machine.h"

namespace tessera {

// Bytes that are moderate numbers in every format, as far apart in memory as weights are.
class MachineWeights {
 public:
  explicit MachineWeights(int64_t bytes);

  std::span<const std::byte> bytes() const {
    return {codes_.data(), static_cast<size_t>(codes_.bytes())};
  }
  // A matrix at the next place; from the beginning again behind the last one. One matrix is not
  // larger than all bytes.
  Linear next(Kernel kernel, int64_t outputs, int64_t inputs);

  // Of the codes of a matrix.
  static int64_t bytes_of(Kernel kernel, int64_t outputs, int64_t inputs);

 private:
  AlignedBuffer codes_;
  AlignedBuffer scales_;
  int64_t at_ = 0;
};

}  // namespace tessera
