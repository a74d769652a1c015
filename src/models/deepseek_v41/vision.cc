#include "models/deepseek_v41/vision.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/check.h"
#include "base/checked_math.h"
#include "ops/activation/activation.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/spatial_merge/spatial_merge.h"
#include "ops/vision_attention/vision_attention.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr float kEps = 1e-6f;      // of the tower's norms; not the text stack's 1e-20
constexpr int64_t kRowTile = 480;  // rows of a linear tile: two row tiles of ops/linear

// Rotary angles of patch (row, column): a quarter of the head turns with the row, the next with the
// column. Frequencies 1 / theta^(2k / (head_dim/2)).
void rotary_tables(const VisionConfig& v, int64_t grid_columns, int64_t patches, float* cos,
                   float* sin) {
  const std::vector<float> frequencies = rope_frequencies(v.head_dim() / 2, v.rope_theta, {});
  const int64_t quarter = static_cast<int64_t>(frequencies.size());
  for (int64_t n = 0; n < patches; ++n) {
    for (int64_t i = 0; i < 2 * quarter; ++i) {
      const float position = static_cast<float>(i < quarter ? n / grid_columns : n % grid_columns);
      const float angle = position * frequencies[static_cast<size_t>(i % quarter)];
      cos_sin(angle, cos + n * 2 * quarter + i, sin + n * 2 * quarter + i);
    }
  }
}

// Patches come as bf16; the fp32 tower widens them.
const bf16* input_of(ExecContext&, const bf16* patches, int64_t, bf16*) { return patches; }
const float* input_of(ExecContext& ctx, const bf16* patches, int64_t count, float*) {
  float* out = ctx.scratch.allocate<float>(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = to_float(patches[i]);
  }
  return out;
}

}  // namespace

template <typename T>
VisionBuffers<T>::VisionBuffers(const Config& config, int64_t count)
    : patches(count),
      stream(DTypeOf<T>::value, {count, config.vision.hidden}),
      normed(DTypeOf<T>::value, {count, config.vision.hidden}),
      qkv(DTypeOf<T>::value, {count, 3 * config.vision.hidden}),
      branch(DTypeOf<T>::value, {count, config.vision.hidden}),
      cos(DType::f32, {count, config.vision.head_dim() / 2}),
      sin(DType::f32, {count, config.vision.head_dim() / 2}) {}

template <typename T>
int64_t VisionBuffers<T>::bytes() const {
  return stream.bytes() + normed.bytes() + qkv.bytes() + branch.bytes() + cos.bytes() + sin.bytes();
}

template <typename T>
VisionJob<T>::VisionJob(const Network& network, const bf16* patches, int64_t grid_rows,
                        int64_t grid_columns, std::string name, VisionBuffers<T>& buffers)
    : network_(network),
      patches_(patches),
      grid_rows_(grid_rows),
      grid_columns_(grid_columns),
      rows_(grid_rows * grid_columns),
      name_(std::move(name)),
      b_(buffers) {
  const VisionConfig& v = network.config.vision;
  TESSERA_CHECK(rows_ > 0 && rows_ <= buffers.patches);
  merged_rows_ = ceil_div(grid_rows, v.downsample) * ceil_div(grid_columns, v.downsample);
  out_ = Tensor(DTypeOf<T>::value, {merged_rows_, network.config.hidden});
}

template <typename T>
template <typename... Pieces>
void VisionJob<T>::tap(ExecContext& ctx, T* values, int64_t rows, int64_t width,
                       const Pieces&... name) {
  ctx.trace.tap(mutable_view_of(values, {rows, width}), name_, name...);
}

template <typename T>
int64_t VisionJob<T>::tiles_of(Phase phase) const {
  switch (phase) {
    case Phase::norm:
      return 1;
    case Phase::aligner:
      return ceil_div(merged_rows_, kRowTile);
    case Phase::done:
      return 0;
    default:
      return ceil_div(rows_, kRowTile);
  }
}

template <typename T>
int64_t VisionJob<T>::tiles_total() const {
  return tiles_of(Phase::embed) * (1 + 4 * network_.config.vision.layers) + 1 +
         tiles_of(Phase::aligner);
}

template <typename T>
bool VisionJob<T>::advance(ExecContext& ctx, int64_t tiles) {
  for (; tiles > 0 && phase_ != Phase::done; --tiles) {
    const int64_t rows = phase_ == Phase::aligner ? merged_rows_ : rows_;
    const int64_t first = tile_ * kRowTile;
    run_tile(ctx, first, std::min(kRowTile, rows - first));
    ++done_;
    if (++tile_ == tiles_of(phase_)) {
      tile_ = 0;
      finish_phase(ctx);
    }
  }
  return phase_ == Phase::done;
}

template <typename T>
void VisionJob<T>::embed_tile(ExecContext& ctx, int64_t first, int64_t count) {
  const VisionConfig& v = network_.config.vision;
  const Arena::Scope scope(ctx.scratch);
  T* x = b_.stream.template as<T>();
  const T* in = input_of(ctx, patches_ + first * v.patch_width(), count * v.patch_width(), x);
  linear(ctx, in, count, network_.weights.vision.patch_embed, x + first * v.hidden);
}

template <typename T>
void VisionJob<T>::qkv_tile(ExecContext& ctx, int64_t first, int64_t count) {
  const VisionConfig& v = network_.config.vision;
  const VisionBlockWeights& w = network_.weights.vision.blocks[static_cast<size_t>(block_)];
  T* h = b_.normed.template as<T>() + first * v.hidden;
  T* qkv = b_.qkv.template as<T>() + first * 3 * v.hidden;
  rms_norm(ctx, b_.stream.template as<T>() + first * v.hidden, w.norm1, count, v.hidden, kEps, h);
  linear(ctx, h, count, w.wqkv, qkv);
  // q and k are the first two thirds of a row.
  const float* cos = b_.cos.template as<float>() + first * v.head_dim() / 2;
  const float* sin = b_.sin.template as<float>() + first * v.head_dim() / 2;
  rotate_halves(ctx, qkv, count, 3 * v.hidden, 2 * v.heads, v.head_dim(), cos, sin);
}

template <typename T>
void VisionJob<T>::mlp_tile(ExecContext& ctx, int64_t first, int64_t count) {
  const VisionConfig& v = network_.config.vision;
  const VisionBlockWeights& w = network_.weights.vision.blocks[static_cast<size_t>(block_)];
  const Arena::Scope scope(ctx.scratch);
  T* h = b_.normed.template as<T>() + first * v.hidden;
  rms_norm(ctx, b_.stream.template as<T>() + first * v.hidden, w.norm2, count, v.hidden, kEps, h);
  T* u = ctx.scratch.allocate<T>(count * 2 * v.ffn_dim);
  T* a = ctx.scratch.allocate<T>(count * v.ffn_dim);
  linear(ctx, h, count, w.w1, u);
  silu_mul(ctx, u, count, v.ffn_dim, a);
  linear(ctx, a, count, w.w2, b_.branch.template as<T>() + first * v.hidden);
}

template <typename T>
void VisionJob<T>::aligner_tile(ExecContext& ctx, int64_t first, int64_t count) {
  const VisionWeights& w = network_.weights.vision;
  const int64_t hidden = network_.config.hidden;
  const int64_t inputs = w.aligner_w1.weight.inputs;
  const Arena::Scope scope(ctx.scratch);
  T* h = ctx.scratch.allocate<T>(count * hidden);
  linear(ctx, merged_.as<T>() + first * inputs, count, w.aligner_w1, h);
  gelu(ctx, h, count * hidden, h);
  linear(ctx, h, count, w.aligner_w2, out_.as<T>() + first * hidden);
}

template <typename T>
void VisionJob<T>::run_tile(ExecContext& ctx, int64_t first, int64_t count) {
  const VisionConfig& v = network_.config.vision;
  const VisionWeights& w = network_.weights.vision;
  switch (phase_) {
    case Phase::embed:
      return embed_tile(ctx, first, count);
    case Phase::qkv:
      return qkv_tile(ctx, first, count);
    case Phase::attention: {
      const T* qkv = b_.qkv.template as<T>();
      const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(v.head_dim())));
      vision_attention(ctx, VisionAttentionArgs<T>{.q = qkv,
                                                   .k = qkv + v.hidden,
                                                   .v = qkv + 2 * v.hidden,
                                                   .stride = 3 * v.hidden,
                                                   .o = b_.normed.template as<T>(),
                                                   .o_stride = v.hidden,
                                                   .tokens = rows_,
                                                   .heads = v.heads,
                                                   .head_dim = v.head_dim(),
                                                   .scale = scale,
                                                   .first_query = first,
                                                   .last_query = first + count});
      return;
    }
    case Phase::output:
      linear(ctx, b_.normed.template as<T>() + first * v.hidden, count,
             w.blocks[static_cast<size_t>(block_)].wo,
             b_.branch.template as<T>() + first * v.hidden);
      return;
    case Phase::mlp:
      return mlp_tile(ctx, first, count);
    case Phase::norm:
      rms_norm(ctx, b_.stream.template as<T>(), w.norm, rows_, v.hidden, kEps,
               b_.normed.template as<T>());
      return;
    case Phase::aligner:
      return aligner_tile(ctx, first, count);
    case Phase::done:
      return;
  }
}

// x += branch; the branch is tapped before the sum.
template <typename T>
void VisionJob<T>::add_branch(ExecContext& ctx, const char* tap_name) {
  const int64_t width = network_.config.vision.hidden;
  tap(ctx, b_.branch.template as<T>(), rows_, width, ".vision.blocks.", block_, tap_name);
  add(ctx, b_.stream.template as<T>(), b_.branch.template as<T>(), rows_ * width);
}

template <typename T>
void VisionJob<T>::finish_phase(ExecContext& ctx) {
  const VisionConfig& v = network_.config.vision;
  switch (phase_) {
    case Phase::embed: {
      float* cos = b_.cos.template as<float>();
      float* sin = b_.sin.template as<float>();
      rotary_tables(v, grid_columns_, rows_, cos, sin);
      tap(ctx, b_.stream.template as<T>(), rows_, v.hidden, ".vision.patch_embed");
      ctx.trace.tap(mutable_view_of(cos, {rows_, v.head_dim() / 2}), name_, ".rope.cos");
      ctx.trace.tap(mutable_view_of(sin, {rows_, v.head_dim() / 2}), name_, ".rope.sin");
      phase_ = v.layers > 0 ? Phase::qkv : Phase::norm;
      return;
    }
    case Phase::qkv:
      phase_ = Phase::attention;
      return;
    case Phase::attention:
      phase_ = Phase::output;
      return;
    case Phase::output:
      add_branch(ctx, ".attn");
      phase_ = Phase::mlp;
      return;
    case Phase::mlp:
      add_branch(ctx, ".mlp");
      tap(ctx, b_.stream.template as<T>(), rows_, v.hidden, ".vision.blocks.", block_);
      phase_ = ++block_ < v.layers ? Phase::qkv : Phase::norm;
      return;
    case Phase::norm: {
      T* normed = b_.normed.template as<T>();
      tap(ctx, normed, rows_, v.hidden, ".vision.norm");
      const int64_t width = v.hidden * v.downsample * v.downsample;
      merged_ = Tensor(DTypeOf<T>::value, {merged_rows_, width});
      unfold(ctx, {grid_rows_, grid_columns_, v.downsample}, normed, v.hidden, merged_.as<T>());
      tap(ctx, merged_.as<T>(), merged_rows_, width, ".aligner.unfold");
      phase_ = Phase::aligner;
      return;
    }
    case Phase::aligner:
      tap(ctx, out_.as<T>(), merged_rows_, network_.config.hidden, ".aligner");
      merged_ = Tensor();
      phase_ = Phase::done;
      return;
    case Phase::done:
      return;
  }
}

template struct VisionBuffers<bf16>;
template struct VisionBuffers<float>;
template class VisionJob<bf16>;
template class VisionJob<float>;

}  // namespace tessera::deepseek_v41
