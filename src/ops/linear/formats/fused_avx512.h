// The loop shared by the fused AVX-512 kernels. Included by *avx512.cc only, see rows_avx512.h.
#pragma once

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/rows_avx512.h"

namespace tessera::kernels {

// Asks for lines one after the other, between other work: a burst would stall the core.
class LinePrefetch {
 public:
  // Without an address: lines of `resident`, which cost nothing.
  LinePrefetch(const std::byte* from, const std::byte* resident)
      : at_(from != nullptr ? from : resident), step_(from != nullptr ? 64 : 0) {}
  template <size_t kLines>
  __attribute__((always_inline)) void step() {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLines; ++i) {
      __builtin_prefetch(at_, 0, 2);
      at_ += step_;
    }
  }

 private:
  const std::byte* at_;
  int64_t step_;
};

// `bytes` (a multiple of 16) of every row of a tile.
static inline void copy_tile(const std::byte* from, int64_t row_bytes, int64_t bytes,
                             PanelBlock& block) {
  if (bytes == kBlockBytes) [[likely]] {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {
      __builtin_prefetch(from + kBlockBytes);
      _mm512_store_si512(block.row[r], _mm512_loadu_si512(from));
      from += row_bytes;
    }
    return;
  }
  const __mmask64 mask = (__mmask64{1} << bytes) - 1;
  for (int r = 0; r < 16; ++r) {
    _mm512_store_si512(block.row[r], _mm512_maskz_loadu_epi8(mask, from));
    from += row_bytes;
  }
}

}  // namespace tessera::kernels
