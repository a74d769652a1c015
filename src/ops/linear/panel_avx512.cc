#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/panel.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kLanes = 16;

// Where register `v` of row `r` stands, from the block's first accumulator.
inline int64_t at(const MultiplyArgs& args, size_t r, size_t v) {
  return static_cast<int64_t>(r) * args.acc_stride + static_cast<int64_t>(v) * kLanes;
}

// How to walk over the inputs of a block of rows, and in which order to add them.
enum class Walk {
  packed,     // panel [inputs][16 rows], pairs, odd first
  direct,     // rows in memory, pairs, odd first
  ascending,  // panel, one by one
};

template <Walk kWalk>
struct F32Source {
  const float* x;
  int64_t stride;  // between rows when direct, else between inputs
  __m512 broadcast(int64_t input, size_t index) const {
    const int64_t row = static_cast<int64_t>(index);
    return _mm512_set1_ps(x[kWalk == Walk::direct ? row * stride + input : input * stride + row]);
  }
};

// One step of two inputs for kRows x kPanels accumulators.
template <size_t kRows, size_t kPanels, typename Source>
inline void multiply_input(const Source& source, const float* const (&w)[kPanels], int64_t input,
                           __m512 (&acc)[kRows][kPanels]) {
  __m512 weights[kPanels];
#pragma GCC unroll 8
  for (size_t p = 0; p < kPanels; ++p) {
    weights[p] = _mm512_load_ps(w[p] + input * kLanes);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m512 x = source.broadcast(input, r);
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      acc[r][p] = _mm512_fmadd_ps(x, weights[p], acc[r][p]);
    }
  }
}

template <size_t kRows, size_t kPanels>
inline void load_acc(const MultiplyArgs& args, const float* acc_at, __m512 (&acc)[kRows][kPanels]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      acc[r][p] = args.is_first ? _mm512_setzero_ps() : _mm512_load_ps(acc_at + at(args, r, p));
    }
  }
}

template <size_t kRows, size_t kPanels>
inline void store_acc(const MultiplyArgs& args, float* acc_at,
                      const __m512 (&acc)[kRows][kPanels]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      _mm512_store_ps(acc_at + at(args, r, p), acc[r][p]);
    }
  }
}

// Rows [first_row, first_row + kRows) times panels [first_panel, first_panel + kPanels).
template <size_t kRows, size_t kPanels, Walk kWalk>
void multiply_block(const MultiplyArgs& args, int64_t first_row, int64_t first_panel) {
  constexpr bool kIsDirect = kWalk == Walk::direct;
  const F32Source<kWalk> source{
      static_cast<const float*>(args.x) + (kIsDirect ? first_row * args.x_stride : first_row),
      kIsDirect ? args.x_stride : args.x_input_stride};
  const float* w[kPanels];
#pragma GCC unroll 8
  for (size_t p = 0; p < kPanels; ++p) {
    w[p] = reinterpret_cast<const float*>(args.w + (first_panel + static_cast<int64_t>(p)) *
                                                       args.w_panel_bytes);
  }
  float* acc_at = args.acc + first_row * args.acc_stride + first_panel * kLanes;
  __m512 acc[kRows][kPanels];
  load_acc(args, acc_at, acc);
  if constexpr (kWalk == Walk::ascending) {
    for (int64_t k = 0; k < args.inputs; ++k) {
      multiply_input<kRows, kPanels>(source, w, k, acc);
    }
  } else {
    for (int64_t k = 0; k < args.inputs; k += 2) {
      multiply_input<kRows, kPanels>(source, w, k + 1, acc);
      multiply_input<kRows, kPanels>(source, w, k, acc);
    }
  }
  store_acc(args, acc_at, acc);
}

template <size_t kRows, size_t kPanels>
void dot_block(const MultiplyArgs& args, int64_t first_row, int64_t first_panel) {
  const int32_t* x = static_cast<const int32_t*>(args.x) + first_row;
  const std::byte* w[kPanels];
#pragma GCC unroll 8
  for (size_t p = 0; p < kPanels; ++p) {
    w[p] = args.w + (first_panel + static_cast<int64_t>(p)) * args.w_panel_bytes;
  }
  float* acc_at = args.acc + first_row * args.acc_stride + first_panel * kLanes;
  __m512 acc[kRows][kPanels];
  load_acc(args, acc_at, acc);
  for (int64_t k = 0; k < args.inputs / 2; ++k) {
    __m512bh weights[kPanels];
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      weights[p] = reinterpret_cast<__m512bh>(_mm512_load_si512(w[p] + k * 64));
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const __m512bh pair =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(x[k * kLanes + static_cast<int64_t>(r)]));
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) {
        acc[r][p] = _mm512_dpbf16_ps(acc[r][p], weights[p], pair);
      }
    }
  }
  store_acc(args, acc_at, acc);
}

using BlockFn = void (*)(const MultiplyArgs&, int64_t, int64_t);

// 8 rows x 2 panels: 16 accumulators cover two 4-cycle multiply-adds a cycle twice over and need 10
// loads for 16 multiply-adds.
constexpr int64_t kBlockRows = 8;
constexpr int64_t kBlockPanels = 2;

template <size_t kPanels, Walk kWalk>
constexpr BlockFn kF32[kBlockRows] = {
    multiply_block<1, kPanels, kWalk>, multiply_block<2, kPanels, kWalk>,
    multiply_block<3, kPanels, kWalk>, multiply_block<4, kPanels, kWalk>,
    multiply_block<5, kPanels, kWalk>, multiply_block<6, kPanels, kWalk>,
    multiply_block<7, kPanels, kWalk>, multiply_block<8, kPanels, kWalk>};

template <size_t kPanels>
constexpr BlockFn kDot[kBlockRows] = {
    dot_block<1, kPanels>, dot_block<2, kPanels>, dot_block<3, kPanels>, dot_block<4, kPanels>,
    dot_block<5, kPanels>, dot_block<6, kPanels>, dot_block<7, kPanels>, dot_block<8, kPanels>};

// All rows of the packed x against pairs of panels.
inline void multiply_packed(const MultiplyArgs& args, const BlockFn* two, const BlockFn* one) {
  int64_t p = 0;
  for (; p < args.panels; p += kBlockPanels) {
    const BlockFn* block = p + kBlockPanels <= args.panels ? two : one;
    for (int64_t r = 0; r < args.rows; r += kBlockRows) {
      const int64_t left = args.rows - r;
      block[(left < kBlockRows ? left : kBlockRows) - 1](args, r, p);
    }
  }
}

// Ticks of 16 chains of 64 steps of OP, of kFlops products each.
template <typename Op>
inline uint64_t smallest_ticks(const Op& op) {
  uint64_t smallest = ~uint64_t{0};
  for (int run = 0; run < 16; ++run) {
    __m512 acc[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      acc[i] = _mm512_setzero_ps();
    }
    const uint64_t start = __builtin_ia32_rdtsc();
    for (int step = 0; step < 64; ++step) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        acc[i] = op(acc[i]);
        __asm__ volatile("" : "+v"(acc[i]));  // keeps the chain
      }
    }
    const uint64_t ticks = __builtin_ia32_rdtsc() - start;
    smallest = ticks < smallest ? ticks : smallest;
  }
  return smallest;
}

}  // namespace

void multiply_f32_avx512(const MultiplyArgs& args) noexcept {
  if (args.x_stride == 0) {
    multiply_packed(args, kF32<2, Walk::packed>, kF32<1, Walk::packed>);
    return;
  }
  // Few rows: as many panels at once as keep four or more chains going without spilling.
  const int64_t step = args.rows <= 4 ? 4 : 2;
  static constexpr const BlockFn* kByPanels[4] = {kF32<1, Walk::direct>, kF32<2, Walk::direct>,
                                                  kF32<3, Walk::direct>, kF32<4, Walk::direct>};
  for (int64_t p = 0; p < args.panels; p += step) {
    const int64_t left = args.panels - p;
    kByPanels[(left < step ? left : step) - 1][args.rows - 1](args, 0, p);
  }
}

void multiply_ascending_f32_avx512(const MultiplyArgs& args) noexcept {
  multiply_packed(args, kF32<2, Walk::ascending>, kF32<1, Walk::ascending>);
}

void multiply_pairs_avx512(const MultiplyArgs& args) noexcept {
  multiply_packed(args, kDot<2>, kDot<1>);
}

DotTicks measure_dot_avx512() noexcept {
  const __m512bh pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  const __m512 one = _mm512_set1_ps(1.0f);
  const uint64_t dot = smallest_ticks([pair](__m512 a) { return _mm512_dpbf16_ps(a, pair, pair); });
  const uint64_t fma = smallest_ticks([one](__m512 a) { return _mm512_fmadd_ps(one, one, a); });
  return {dot, 2 * fma};  // half as many products in an fma
}

void store_bf16_avx512(const StoreArgs& args) noexcept {
  const __m512i low_bit = _mm512_set1_epi32(1);
  const __m512i half = _mm512_set1_epi32(0x7fff);
  const __m512i quiet = _mm512_set1_epi32(0x40);
  const __m512 factor = _mm512_set1_ps(args.factor);
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* acc = args.acc + r * args.acc_stride;
    uint16_t* y = static_cast<uint16_t*>(args.y) + r * args.y_stride;
    for (int64_t o = 0; o < args.outputs; o += kLanes) {
      const int64_t left = args.outputs - o;
      const __mmask16 lanes = left >= kLanes ? static_cast<__mmask16>(0xffff)
                                             : static_cast<__mmask16>((1U << left) - 1U);
      __m512 a = _mm512_mul_ps(_mm512_load_ps(acc + o), factor);
      if (args.bias != nullptr) {
        const __m256i bias = _mm256_maskz_loadu_epi16(lanes, args.bias + o * 2);
        a = _mm512_add_ps(a,
                          _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bias), 16)));
      }
      const __m512i u = _mm512_castps_si512(a);
      const __m512i upper = _mm512_srli_epi32(u, 16);
      __m512i rounded = _mm512_srli_epi32(
          _mm512_add_epi32(_mm512_add_epi32(u, half), _mm512_and_si512(upper, low_bit)), 16);
      const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
      rounded = _mm512_mask_or_epi32(rounded, is_nan, upper, quiet);
      _mm256_mask_storeu_epi16(y + o, lanes, _mm512_cvtepi32_epi16(rounded));
    }
  }
}

}  // namespace tessera::kernels
