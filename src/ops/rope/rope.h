// Rotary position embedding: tables and the two pairings of the models.
//   adjacent pairs  (x[2i], x[2i+1])   the language model, last `rotary` elements of a vector
//   half split      (x[i], x[i+d/2])   the vision tower, all elements
// a' = a*cos - b*sin,  b' = a*sin + b*cos; the inverse rotation uses -sin. fp32 products and sums
// (no fma), one rounding. Source: deepseek_v41 specification 3 and 7.1.
#pragma once

#include <cstdint>
#include <vector>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// cos and sin of a float angle, evaluated in double and rounded once: the largest error is half a
// unit in the last place plus 1e-12, for |angle| up to 2^24.
void cos_sin(float angle, float* cos, float* sin) noexcept;

struct YarnScaling {
  int64_t original_positions = 0;  // 0: no scaling
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
};

// Frequencies [rotary/2] fp32: 1 / theta^(2i/rotary), stretched by YaRN where asked for.
std::vector<float> rope_frequencies(int64_t rotary, double theta, const YarnScaling& yarn);

// cos, sin [rows, frequencies]: angle = f32(position) * frequency in fp32.
void rope_tables(ExecContext& ctx, const int64_t* positions, int64_t rows,
                 const std::vector<float>& frequencies, float* cos, float* sin);

enum class Rotation { forward, inverse };

// x bf16 [rows, vectors, width], in place: the last `rotary` elements of each vector of a row turn
// by the row's angles; cos, sin [rows, rotary/2].
void rotate_adjacent(ExecContext& ctx, bf16* x, int64_t rows, int64_t vectors, int64_t width,
                     int64_t rotary, const float* cos, const float* sin, Rotation rotation);

// x [rows] with `stride` elements between rows: `vectors` vectors of `width` elements from the
// start of each row turn, half split; cos, sin [rows, width/2].
void rotate_halves(ExecContext& ctx, bf16* x, int64_t rows, int64_t stride, int64_t vectors,
                   int64_t width, const float* cos, const float* sin);
void rotate_halves(ExecContext& ctx, float* x, int64_t rows, int64_t stride, int64_t vectors,
                   int64_t width, const float* cos, const float* sin);

}  // namespace tessera
