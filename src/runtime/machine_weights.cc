#include "runtime/machine_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"

namespace tessera {
namespace {

// Weights are mapped files, which have small pages: reading them costs more of the page tables.
void use_small_pages(AlignedBuffer& buffer) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const intptr_t begin = round_up(reinterpret_cast<intptr_t>(buffer.data()), page);
  const intptr_t end = reinterpret_cast<intptr_t>(buffer.data()) + buffer.bytes();
  if (begin < end) {
    ::madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(end - begin), MADV_NOHUGEPAGE);
  }
}

}  // namespace

MachineWeights::MachineWeights(int64_t bytes) : codes_(bytes), scales_(bytes / 16 + (1 << 20)) {
  use_small_pages(codes_);
  use_small_pages(scales_);
  std::vector<uint64_t> pattern((1 << 20) / 8 + 13);  // no multiple of any matrix row
  std::mt19937_64 random(1);
  for (uint64_t& word : pattern) {
    word = random() & 0xbfbfbfbfbfbfbfbfU;
  }
  const int64_t piece = static_cast<int64_t>(pattern.size() * sizeof(uint64_t));
  for (int64_t at = 0; at < bytes; at += piece) {
    std::memcpy(codes_.data() + at, pattern.data(),
                static_cast<size_t>(std::min(piece, bytes - at)));
  }
  std::memset(scales_.data(), 120, static_cast<size_t>(scales_.bytes()));  // E8M0: 2^-7
}

int64_t MachineWeights::bytes_of(Kernel kernel, int64_t outputs, int64_t inputs) {
  switch (kernel) {
    case Kernel::fp4:
      return outputs * inputs / 2;
    case Kernel::fp8:
      return outputs * inputs;
    default:
      return outputs * inputs * dtype_bytes(DType::bf16);
  }
}

Linear MachineWeights::next(Kernel kernel, int64_t outputs, int64_t inputs) {
  const int64_t bytes = bytes_of(kernel, outputs, inputs);
  TESSERA_CHECK(bytes <= codes_.bytes());
  at_ = at_ + bytes > codes_.bytes() ? 0 : at_;
  const std::byte* codes = codes_.data() + at_;
  const std::byte* scales = scales_.data() + at_ / 16;  // FP4 has most: one for 16 bytes
  at_ = round_up(at_ + bytes, kAlignment);
  Linear made;
  made.weight.outputs = outputs;
  made.weight.inputs = inputs;
  made.input = kernel == Kernel::bf16 ? InputRule::none : InputRule::e4m3_32;
  if (kernel == Kernel::fp4) {
    made.weight.format = WeightMxfp4{codes, scales};
  } else if (kernel == Kernel::fp8) {
    made.weight.format = WeightFp8Block{codes, scales, 32};
  } else {
    made.weight.format = WeightBf16{codes};
  }
  return made;
}

}  // namespace tessera
