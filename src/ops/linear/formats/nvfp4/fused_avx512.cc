#include <immintrin.h>

#include <cstdint>

#include "ops/linear/formats/e2m1_fused_avx512.h"
#include "ops/linear/formats/nvfp4/nvfp4_avx512.h"
#include "ops/linear/formats/nvfp4/nvfp4_format.h"

namespace tessera::kernels {
namespace {

class Scales {
 public:
  static constexpr int64_t kGroup = kNvfp4Group;

  bool load(const std::byte* from, int64_t row_bytes, int64_t count) {
    words_[0] = load_scale_words(from, row_bytes, kPanelRows, count);
    words_[1] = count > 4 ? load_scale_words(from + 4, row_bytes, kPanelRows, count - 4)
                          : _mm512_setzero_si512();
    return (nvfp4_nan_scales(words_[0]) | nvfp4_nan_scales(words_[1])) == 0;
  }
  void next(__m512 (&factors)[2]) {
    const __m512i byte_mask = _mm512_set1_epi32(0xff);
    factors[0] = nvfp4_factor(_mm512_and_si512(words_[0], byte_mask));
    factors[1] = nvfp4_factor(_mm512_and_si512(_mm512_srli_epi32(words_[0], 8), byte_mask));
    words_[0] = _mm512_or_si512(_mm512_srli_epi32(words_[0], 16), _mm512_slli_epi32(words_[1], 16));
    words_[1] = _mm512_srli_epi32(words_[1], 16);
  }

 private:
  __m512i words_[2];  // eight scales of every row
};

}  // namespace

bool fused_nvfp4_avx512(const FusedArgs& args) noexcept {
  return multiply_e2m1_fused<Scales>(args);
}

}  // namespace tessera::kernels
