// The vision tower and the aligner, one image at a time. Source: deepseek_v41 specification 3
// and 4.
//
// Encoding is a job that advances in tiles, so that a caller can do other work in between; where it
// is cut changes no bit. T is bf16 (the model's own precision) or float (no activation is rounded
// anywhere: a test of structure and kernels without the noise of rounding points).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/deepseek_v41/model.h"
#include "tensor/exec_context.h"

namespace tessera::deepseek_v41 {

// Memory of one job, sized for a number of patches.
template <typename T>
struct VisionBuffers {
  VisionBuffers(const Config& config, int64_t patches);

  int64_t patches;
  Tensor stream;    // [patches, hidden] x
  Tensor normed;    // [patches, hidden] norm(x), then the attention's result
  Tensor qkv;       // [patches, 3 * hidden]
  Tensor branch;    // [patches, hidden] what a sub-layer adds
  Tensor cos, sin;  // f32 [patches, head_dim / 2]
  int64_t bytes() const;
};

template <typename T>
class VisionJob {
 public:
  // patches bf16 [grid_rows * grid_columns, 3 * patch * patch]; they and the buffers outlive the
  // job. name: trace prefix, "image0".
  VisionJob(const Network& network, const bf16* patches, int64_t grid_rows, int64_t grid_columns,
            std::string name, VisionBuffers<T>& buffers);

  // Does up to `tiles` more tiles. Returns whether the job is done.
  bool advance(ExecContext& ctx, int64_t tiles);

  int64_t tiles_done() const { return done_; }
  int64_t tiles_total() const;
  // Aligner rows [out_rows, text hidden]; valid when done.
  int64_t out_rows() const { return merged_rows_; }
  const T* out() const { return out_.as<T>(); }
  Tensor take_out() { return std::move(out_); }

 private:
  enum class Phase { embed, qkv, attention, output, mlp, norm, aligner, done };

  int64_t tiles_of(Phase phase) const;
  void run_tile(ExecContext& ctx, int64_t first, int64_t count);
  void finish_phase(ExecContext& ctx);
  void embed_tile(ExecContext& ctx, int64_t first, int64_t count);
  void qkv_tile(ExecContext& ctx, int64_t first, int64_t count);
  void mlp_tile(ExecContext& ctx, int64_t first, int64_t count);
  void aligner_tile(ExecContext& ctx, int64_t first, int64_t count);
  void add_branch(ExecContext& ctx, const char* tap_name);
  template <typename... Pieces>
  void tap(ExecContext& ctx, T* values, int64_t rows, int64_t width, const Pieces&... name);

  const Network& network_;
  const bf16* patches_;
  int64_t grid_rows_, grid_columns_;
  int64_t rows_;         // patches
  int64_t merged_rows_;  // aligner rows
  std::string name_;
  VisionBuffers<T>& b_;
  Tensor merged_;  // aligner input [merged_rows, hidden * downsample^2]
  Tensor out_;     // [merged_rows, text hidden]
  Phase phase_ = Phase::embed;
  int64_t block_ = 0;
  int64_t tile_ = 0;
  int64_t done_ = 0;
};

extern template struct VisionBuffers<bf16>;
extern template struct VisionBuffers<float>;
extern template class VisionJob<bf16>;
extern template class VisionJob<float>;

}  // namespace tessera::deepseek_v41
