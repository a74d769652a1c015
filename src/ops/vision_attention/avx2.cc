#include <immintrin.h>

#include <cstdint>

#include "ops/vision_attention/kernels.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kWidth = 8;

// exp_f32 of ops/vector_math.h for x <= 0, the same operations in the same order. There 2^n is
// applied in two exact factors because of n = 128; here n <= 0 and one factor gives the same bits.
inline __m256 exp_not_positive(__m256 x) {
  const __m256 magic = _mm256_set1_ps(12582912.0f);
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(1.44269504f), magic);
  const __m256 n = _mm256_sub_ps(shifted, magic);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693145752f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.38430073e-3f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.37434083e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16695364e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66664824e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.99999851e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  // The lowest 9 bits of the magic number are zero: the shift leaves n in the exponent.
  const __m256i factor = _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23),
                                          _mm256_set1_epi32(0x3f800000));
  const __m256 y = _mm256_mul_ps(p, _mm256_castsi256_ps(factor));
  // Not less than the smallest, or NaN.
  return _mm256_and_ps(y, _mm256_cmp_ps(x, _mm256_set1_ps(-87.33654f), _CMP_NLT_UQ));
}

}  // namespace

void scale_and_max_avx2(const SoftmaxArgs& args) noexcept {
  const __m256 scale = _mm256_set1_ps(args.scale);
  for (int64_t lane = 0; lane < args.lanes; lane += kWidth) {
    __m256 largest = _mm256_load_ps(args.largest + lane);
    for (int64_t key = 0; key < args.keys; ++key) {
      float* at = args.s + key * args.lanes + lane;
      const __m256 s = _mm256_mul_ps(_mm256_load_ps(at), scale);
      _mm256_store_ps(at, s);
      largest = _mm256_max_ps(s, largest);
    }
    _mm256_store_ps(args.largest + lane, largest);
  }
}

void exp_and_sum_avx2(const SoftmaxArgs& args) noexcept {
  for (int64_t lane = 0; lane < args.lanes; lane += kWidth) {
    const __m256 largest = _mm256_load_ps(args.largest + lane);
    __m256 sum = _mm256_load_ps(args.sum + lane);
    for (int64_t key = 0; key < args.keys; ++key) {
      const int64_t at = key * args.lanes + lane;
      const __m256 p = exp_not_positive(_mm256_sub_ps(_mm256_load_ps(args.s + at), largest));
      _mm256_store_ps(args.p + at, p);
      sum = _mm256_add_ps(sum, p);
    }
    _mm256_store_ps(args.sum + lane, sum);
  }
}

}  // namespace tessera::kernels
