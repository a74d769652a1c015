// The two implementations of vision_attention, for the table in vision_attention.cc.
#pragma once

#include "base/float_types.h"
#include "ops/linear/panel.h"
#include "ops/vision_attention/kernels.h"
#include "ops/vision_attention/vision_attention.h"

namespace tessera::kernels {

// One query at a time, plain loops: the definition.
template <typename T>
void attend_reference(ExecContext& ctx, const VisionAttentionArgs<T>& args);

struct TileKernels {
  MultiplyFn multiply_ascending;
  SoftmaxFn scale_and_max;
  SoftmaxFn exp_and_sum;
};
// Tiles of queries against packed keys and values. `may_use_dot` allows vdpbf16ps for q . k where
// the level has it; the bits are the same.
template <typename T>
void attend_tiled(ExecContext& ctx, const VisionAttentionArgs<T>& args, const TileKernels& kernels,
                  bool may_use_dot);

constexpr TileKernels kTileKernelsAvx2 = {multiply_ascending_f32_avx2, scale_and_max_avx2,
                                          exp_and_sum_avx2};
constexpr TileKernels kTileKernelsAvx512 = {multiply_ascending_f32_avx512, scale_and_max_avx512,
                                            exp_and_sum_avx512};

inline float widen(bf16 x) { return to_float(x); }
inline float widen(float x) { return x; }
inline void assign_rounded(bf16& to, float x) { to = to_bf16(x); }
inline void assign_rounded(float& to, float x) { to = x; }

}  // namespace tessera::kernels
