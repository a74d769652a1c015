#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ops/linear/formats/unpack.h"
#include "ops/linear/panel.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kPanel = 16;  // outputs of a panel: two registers
constexpr int64_t kLanes = 8;

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
  __m256 broadcast(int64_t input, size_t index) const {
    const int64_t row = static_cast<int64_t>(index);
    return _mm256_broadcast_ss(
        &x[kWalk == Walk::direct ? row * stride + input : input * stride + row]);
  }
};

template <size_t kRows, size_t kPanels, typename Source>
inline void multiply_input(const Source& source, const float* const (&w)[kPanels], int64_t input,
                           __m256 (&acc)[kRows][2 * kPanels]) {
  __m256 weights[2 * kPanels];
#pragma GCC unroll 8
  for (size_t p = 0; p < kPanels; ++p) {
    weights[2 * p] = _mm256_load_ps(w[p] + input * kPanel);
    weights[2 * p + 1] = _mm256_load_ps(w[p] + input * kPanel + kLanes);
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    const __m256 x = source.broadcast(input, r);
#pragma GCC unroll 8
    for (size_t v = 0; v < 2 * kPanels; ++v) {
      acc[r][v] = _mm256_fmadd_ps(x, weights[v], acc[r][v]);
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
  float* acc_at = args.acc + first_row * args.acc_stride + first_panel * kPanel;
  __m256 acc[kRows][2 * kPanels];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < 2 * kPanels; ++v) {
      acc[r][v] = args.is_first ? _mm256_setzero_ps() : _mm256_load_ps(acc_at + at(args, r, v));
    }
  }
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
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < 2 * kPanels; ++v) {
      _mm256_store_ps(acc_at + at(args, r, v), acc[r][v]);
    }
  }
}

using BlockFn = void (*)(const MultiplyArgs&, int64_t, int64_t);

// 6 rows x 16 outputs: 12 accumulators of 16 registers.
constexpr int64_t kBlockRows = 6;
template <Walk kWalk>
constexpr BlockFn kBlocks[kBlockRows] = {multiply_block<1, 1, kWalk>, multiply_block<2, 1, kWalk>,
                                         multiply_block<3, 1, kWalk>, multiply_block<4, 1, kWalk>,
                                         multiply_block<5, 1, kWalk>, multiply_block<6, 1, kWalk>};
// One or two rows: as many panels at once as keep eight chains of multiply-adds going.
constexpr BlockFn kOneRow[4] = {
    multiply_block<1, 1, Walk::direct>, multiply_block<1, 2, Walk::direct>,
    multiply_block<1, 3, Walk::direct>, multiply_block<1, 4, Walk::direct>};
constexpr BlockFn kTwoRows[2] = {multiply_block<2, 1, Walk::direct>,
                                 multiply_block<2, 2, Walk::direct>};

// All panels, `step` at a time.
inline void multiply_few(const MultiplyArgs& args, const BlockFn* by_panels, int64_t step) {
  for (int64_t p = 0; p < args.panels; p += step) {
    const int64_t left = args.panels - p;
    by_panels[(left < step ? left : step) - 1](args, 0, p);
  }
}

template <Walk kWalk>
inline void multiply_rows(const MultiplyArgs& args) {
  // Even blocks: 16 rows are 6 + 5 + 5, never 6 + 6 + 4.
  const int64_t blocks = (args.rows + kBlockRows - 1) / kBlockRows;
  for (int64_t p = 0; p < args.panels; ++p) {
    int64_t r = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t rows = (args.rows - r + blocks - b - 1) / (blocks - b);
      kBlocks<kWalk>[rows - 1](args, r, p);
      r += rows;
    }
  }
}

}  // namespace

void multiply_f32_avx2(const MultiplyArgs& args) noexcept {
  if (args.x_stride == 0) {
    multiply_rows<Walk::packed>(args);
  } else if (args.rows == 1) {
    multiply_few(args, kOneRow, 4);
  } else if (args.rows == 2) {
    multiply_few(args, kTwoRows, 2);
  } else {
    multiply_rows<Walk::direct>(args);
  }
}

void multiply_ascending_f32_avx2(const MultiplyArgs& args) noexcept {
  multiply_rows<Walk::ascending>(args);
}

void fold_avx2(const FoldArgs& args) noexcept {
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* part = args.part + r * args.acc_stride;
    float* acc = args.acc + r * args.acc_stride;
    for (int64_t o = 0; o < args.panels * kPanelRows; o += 8) {
      const __m256 before = args.is_first ? _mm256_setzero_ps() : _mm256_load_ps(acc + o);
      const __m256 scale = _mm256_set1_ps(args.scales[o / kPanelRows]);
      _mm256_store_ps(acc + o, _mm256_fmadd_ps(_mm256_load_ps(part + o), scale, before));
    }
  }
}

void store_bf16_avx2(const StoreArgs& args) noexcept {
  const __m256i low_bit = _mm256_set1_epi32(1);
  const __m256i half = _mm256_set1_epi32(0x7fff);
  const __m256i quiet = _mm256_set1_epi32(0x40);
  const __m256 factor = _mm256_set1_ps(args.factor);
  const int64_t whole = args.outputs - args.outputs % kLanes;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* acc = args.acc + r * args.acc_stride;
    uint16_t* y = static_cast<uint16_t*>(args.y) + r * args.y_stride;
    for (int64_t o = 0; o < whole; o += kLanes) {
      __m256 a = _mm256_mul_ps(_mm256_load_ps(acc + o), factor);
      if (args.bias != nullptr) {
        const __m128i bias = _mm_loadu_si128(reinterpret_cast<const __m128i*>(args.bias + o * 2));
        a = _mm256_add_ps(a,
                          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bias), 16)));
      }
      const __m256i u = _mm256_castps_si256(a);
      const __m256i upper = _mm256_srli_epi32(u, 16);
      const __m256i rounded = _mm256_srli_epi32(
          _mm256_add_epi32(_mm256_add_epi32(u, half), _mm256_and_si256(upper, low_bit)), 16);
      const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
      const __m256i result = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, quiet), is_nan);
      const __m128i packed =
          _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + o), packed);
    }
  }
  if (whole < args.outputs) {
    StoreArgs rest = args;
    rest.acc += whole;
    rest.y = static_cast<uint16_t*>(args.y) + whole;
    rest.bias = args.bias == nullptr ? nullptr : args.bias + whole * 2;
    rest.outputs -= whole;
    store_bf16_reference(rest);
  }
}

}  // namespace tessera::kernels
