#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_fused_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_avx512.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"

namespace tessera::kernels {
namespace {

class Scales {
 public:
  static constexpr int64_t kGroup = kMxfp4Group;

  bool load(const std::byte* from, int64_t row_bytes, int64_t count) {
    words_ = load_scale_words(from, row_bytes, kPanelRows, count);
    const __m512i largest = _mm512_set1_epi8(static_cast<char>(kMxfp4LargestScale));
    return _mm512_cmpgt_epu8_mask(words_, largest) == 0;
  }
  void next(__m512 (&factors)[2]) {
    factors[0] = mxfp4_factor(_mm512_and_si512(words_, _mm512_set1_epi32(0xff)));
    factors[1] = factors[0];
    words_ = _mm512_srli_epi32(words_, 8);
  }

 private:
  __m512i words_;  // four scales of every row
};

}  // namespace

bool fused_mxfp4_avx512(const FusedArgs& args) noexcept {
  return multiply_e2m1_fused<Scales>(args);
}

}  // namespace tessera::kernels
