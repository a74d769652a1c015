// How linear_many cuts its calls into items for the threads.
#pragma once

#include <algorithm>
#include <span>

#include "base/checked_math.h"
#include "ops/linear/variants.h"

namespace tessera::kernels {

constexpr int64_t kLargestGroup = 4;  // panels unpacked at a time

// One call: its inputs after the input rule, its kernels and its tiles.
//
// An item is a tile of rows times a range of panels. With few rows it streams: group by group of
// panels, each over all of K, so that the weights are read once from front to back while the next
// group is prefetched. With many rows it is blocked: chunk by chunk of K, each over all panels, so
// that the packed inputs stay in L2. The order of the sums is the same.
struct Plan {
  const LinearCall* call = nullptr;
  // bf16 or float [rows, x_row_bytes], padded to an even number of inputs.
  const std::byte* x = nullptr;
  int64_t x_row_bytes = 0;
  bool x_is_f32 = false;
  bool is_direct = false;     // x is float and read in place, not packed
  bool is_streaming = false;  // direct, or packed for all of K at once
  UnpackFn unpack_x = nullptr;
  UnpackFn unpack_w = nullptr;
  MultiplyFn multiply = nullptr;
  FusedFn fused = nullptr;  // instead of unpack_w and multiply, for whole panels of one row
  StoreFn store = nullptr;
  FoldFn fold =
      nullptr;       // for formats that multiply sums by scales: a chunk is one block of inputs
  float factor = 1;  // of the finished sums
  int64_t bytes_per_input = 0;  // of a panel
  int64_t inputs = 0;           // padded to even
  int64_t chunk = 0;            // inputs of weights unpacked at a time
  int64_t group = 0;            // panels unpacked at a time
  int64_t row_tile = 0;
  int64_t row_tiles = 0;
  int64_t panels = 0;
  int64_t panels_per_item = 0;
  int64_t first_item = 0;
  int64_t w_row_bytes = 0;
  int64_t threads = 1;
  const Plan* next = nullptr;  // the plan whose items follow

  int64_t items() const { return row_tiles * ceil_div(panels, panels_per_item); }
  int64_t w_panel_bytes() const { return chunk * bytes_per_input; }
  int64_t x_panel_bytes() const { return (is_streaming ? inputs : chunk) * bytes_per_input; }
  int64_t x_scratch_bytes() const {
    const int64_t bytes = ceil_div(row_tile, kPanelRows) * x_panel_bytes();
    return is_direct ? 0 : round_up(bytes, kAlignment);
  }
  int64_t w_scratch_bytes() const { return group * w_panel_bytes(); }
  int64_t acc_stride() const { return panels_per_item * kPanelRows; }
  int64_t acc_bytes() const {
    return row_tile * acc_stride() * static_cast<int64_t>(sizeof(float));
  }
  int64_t scratch_bytes() const {
    return x_scratch_bytes() + w_scratch_bytes() + (fold == nullptr ? 1 : 2) * acc_bytes();
  }
};

// Plans of the calls that have work to do, in ctx.scratch, with first_item ascending. Applies the
// input rules on the way.
std::span<const Plan> make_plans(ExecContext& ctx, std::span<const LinearCall> calls,
                                 bool may_use_dot);

// Item `index` of a plan, with scratch_bytes() of scratch, 64-byte aligned.
void run_item(const Plan& plan, int64_t index, std::byte* scratch) noexcept;

}  // namespace tessera::kernels
