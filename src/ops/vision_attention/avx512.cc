#include <immintrin.h>

#include <cstdint>

#include "ops/vision_attention/kernels.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kWidth = 16;

// exp_f32 of ops/vector_math.h for x <= 0, the same operations in the same order. There 2^n is
// applied in two exact factors because of n = 128; here n <= 0 and one factor gives the same bits.
inline __m512 exp_not_positive(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f);
  const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), magic);
  const __m512 n = _mm512_sub_ps(shifted, magic);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693145752f), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.42860677e-6f), r);
  __m512 p = _mm512_set1_ps(1.38430073e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.37434083e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.16695364e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.66664824e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.99999851e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  // The lowest 9 bits of the magic number are zero: the shift leaves n in the exponent.
  const __m512i factor = _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23),
                                          _mm512_set1_epi32(0x3f800000));
  // Not less than the smallest, or NaN.
  const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.33654f), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(kept, p, _mm512_castsi512_ps(factor));
}

}  // namespace

void scale_and_max_avx512(const SoftmaxArgs& args) noexcept {
  const __m512 scale = _mm512_set1_ps(args.scale);
  for (int64_t lane = 0; lane < args.lanes; lane += kWidth) {
    __m512 largest = _mm512_load_ps(args.largest + lane);
    for (int64_t key = 0; key < args.keys; ++key) {
      float* at = args.s + key * args.lanes + lane;
      const __m512 s = _mm512_mul_ps(_mm512_load_ps(at), scale);
      _mm512_store_ps(at, s);
      largest = _mm512_max_ps(s, largest);
    }
    _mm512_store_ps(args.largest + lane, largest);
  }
}

void exp_and_sum_avx512(const SoftmaxArgs& args) noexcept {
  for (int64_t lane = 0; lane < args.lanes; lane += kWidth) {
    const __m512 largest = _mm512_load_ps(args.largest + lane);
    __m512 sum = _mm512_load_ps(args.sum + lane);
    for (int64_t key = 0; key < args.keys; ++key) {
      const int64_t at = key * args.lanes + lane;
      const __m512 p = exp_not_positive(_mm512_sub_ps(_mm512_load_ps(args.s + at), largest));
      _mm512_store_ps(args.p + at, p);
      sum = _mm512_add_ps(sum, p);
    }
    _mm512_store_ps(args.sum + lane, sum);
  }
}

}  // namespace tessera::kernels
