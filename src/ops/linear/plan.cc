#include "ops/linear/plan.h"

#include <cstring>

#include "base/check.h"
#include "ops/quantize/quantize.h"

namespace tessera::kernels {
namespace {

// Blocked: a panel chunk of 16 KiB (two of them for a group) stays in L1 while the packed inputs of
// a row tile, 256 KiB, stream past it from L2.
constexpr int64_t kPanelChunkBytes = 16 << 10;
constexpr int64_t kRowTile = 256;
constexpr int64_t kBlockedGroup = 2;
// Streamed: the work is reading and unpacking the weights. Two groups of panels as they lie in
// memory, the one in work and the one prefetched, must fit in L2, an unpacked chunk in L1.
constexpr int64_t kStreamedRows = 32;
constexpr int64_t kDirectRows = 8;  // accumulators of so many rows fit the registers
constexpr int64_t kStreamedGroupBytes = 512 << 10;
constexpr int64_t kStreamedChunkBytes = 32 << 10;
constexpr int64_t kLargestItem = 16;  // panels
// Weight elements to unpack, one row costing an eighth of the unpacking: below some microseconds of
// it an item is not worth a thread.
constexpr int64_t kSmallestItemWork = 60000;

void check_call(const LinearCall& call) {
  TESSERA_CHECK(call.layer != nullptr && call.rows >= 0);
  const Linear& layer = *call.layer;
  TESSERA_CHECK(layer.weight.inputs > 0 && layer.weight.outputs >= 0);
  TESSERA_CHECK(layer.weight.inputs % format_of(layer.weight).layout(layer.weight).input_unit == 0);
  TESSERA_CHECK(layer.input != InputRule::e2m1_16 || layer.weight.inputs % 16 == 0);
  TESSERA_CHECK(layer.input == InputRule::e2m1_16 || layer.input_scale == 1.0f);
  TESSERA_CHECK(call.out == DType::bf16 || call.out == DType::f32);
  TESSERA_CHECK((call.x == nullptr) != (call.x32 == nullptr) || call.rows == 0);
  if (call.x32 != nullptr) {
    TESSERA_CHECK(call.out == DType::f32 && layer.input == InputRule::none);
    TESSERA_CHECK(std::holds_alternative<WeightF32>(layer.weight.format) ||
                  std::holds_alternative<WeightF16>(layer.weight.format) ||
                  std::holds_alternative<WeightBf16>(layer.weight.format));
  }
}

bool is_same_rule(const Linear& a, const Linear& b) {
  return a.input == b.input && a.input_scale == b.input_scale;
}

// Calls [first, end) whose inputs lie one behind the other under the quantising rule: one loop
// quantises them all (the experts of a step).
size_t end_of_run(std::span<const LinearCall> calls, size_t first) {
  const int64_t inputs = calls[first].layer->weight.inputs;
  const bf16* last = calls[first].x;
  const bf16* next = last + calls[first].rows * inputs;
  size_t end = first + 1;
  for (; end < calls.size(); ++end) {
    const LinearCall& call = calls[end];
    if (!is_same_rule(*call.layer, *calls[first].layer) || call.layer->weight.inputs != inputs) {
      break;
    }
    if (call.x == next) {
      last = next;
      next += call.rows * inputs;
    } else if (call.x != last) {
      break;
    }
  }
  return end;
}

// Applies the input rules: plan.x and x_row_bytes.
void apply_input_rules(ExecContext& ctx, std::span<const LinearCall> calls, Plan* plans) {
  for (size_t i = 0; i < calls.size();) {
    const LinearCall& call = calls[i];
    const int64_t inputs = call.layer->weight.inputs;
    plans[i].x_is_f32 = call.x32 != nullptr;
    plans[i].x_row_bytes = inputs * (plans[i].x_is_f32 ? 4 : 2);
    if (call.layer->input == InputRule::none) {
      plans[i].x = plans[i].x_is_f32 ? reinterpret_cast<const std::byte*>(call.x32)
                                     : reinterpret_cast<const std::byte*>(call.x);
      ++i;
      continue;
    }
    const size_t end = end_of_run(calls, i);
    int64_t rows = 0;
    for (size_t j = i; j < end; ++j) {
      rows = std::max(rows, (calls[j].x - call.x) / std::max<int64_t>(inputs, 1) + calls[j].rows);
    }
    bf16* quantised = ctx.scratch.allocate<bf16>(rows * inputs);
    if (call.layer->input == InputRule::e4m3_32) {
      quantize_dequantize_e4m3(ctx, call.x, rows, inputs, quantised);
    } else {
      quantize_e2m1_calibrated(ctx, call.x, rows, inputs, call.layer->input_scale, quantised);
    }
    for (size_t j = i; j < end; ++j) {
      plans[j].x = reinterpret_cast<const std::byte*>(quantised + (calls[j].x - call.x));
      plans[j].x_row_bytes = inputs * 2;
    }
    i = end;
  }
}

// x as float [rows, inputs padded to even]; the padding is 1 (formats/unpack.h).
const float* widen(ExecContext& ctx, const Plan& plan, int64_t rows, int64_t inputs) {
  const int64_t stride = plan.inputs;
  float* wide = ctx.scratch.allocate<float>(rows * stride);
  for (int64_t row = 0; row < rows; ++row) {
    float* to = wide + row * stride;
    const std::byte* from = plan.x + row * plan.x_row_bytes;
    if (plan.x_is_f32) {
      std::memcpy(to, from, static_cast<size_t>(inputs) * sizeof(float));
    } else {
      for (int64_t i = 0; i < inputs; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + i * 2, sizeof(bits));
        to[i] = to_float(bf16{bits});
      }
    }
    std::fill(to + inputs, to + stride, 1.0f);
  }
  return wide;
}

// Inputs of the form that the kernels read in place: float, even, whole rows.
void make_direct(ExecContext& ctx, Plan& plan, const Plan* before) {
  const LinearCall& call = *plan.call;
  const int64_t inputs = call.layer->weight.inputs;
  const bool is_same_x = before != nullptr && before->call->x == call.x &&
                         before->call->x32 == call.x32 && before->call->rows == call.rows &&
                         before->call->layer->weight.inputs == inputs &&
                         is_same_rule(*before->call->layer, *call.layer);
  if (is_same_x) {
    plan.x = before->x;
  } else if (!plan.x_is_f32 || plan.inputs != inputs) {
    plan.x = reinterpret_cast<const std::byte*>(widen(ctx, plan, call.rows, inputs));
  }
  plan.x_is_f32 = true;
  plan.x_row_bytes = plan.inputs * 4;
}

void choose_chunks(Plan& plan) {
  plan.w_row_bytes = panel_source(plan.call->layer->weight, 0).row_bytes;
  int64_t chunk_bytes = kPanelChunkBytes;
  plan.group = kBlockedGroup;
  if (plan.is_streaming) {
    plan.group = std::clamp(kStreamedGroupBytes / (plan.w_row_bytes * kPanelRows), int64_t{1},
                            kLargestGroup);
    chunk_bytes = kStreamedChunkBytes / plan.group;
  }
  // A chunk begins where a scale begins, and holds whole 64-byte blocks of every format.
  constexpr int64_t kUnit = 128;
  plan.chunk =
      std::min(round_up(plan.inputs, 32), chunk_bytes / plan.bytes_per_input / kUnit * kUnit);
  if (plan.fold != nullptr) {
    const Weight& weight = plan.call->layer->weight;
    plan.chunk = std::min(round_up(plan.inputs, 32), format_of(weight).layout(weight).block);
  }
}

void choose_tiles(const ExecContext& ctx, Plan& plan) {
  const int64_t rows = plan.call->rows;
  plan.panels = ceil_div(plan.call->layer->weight.outputs, kPanelRows);
  plan.row_tiles = ceil_div(rows, kRowTile);
  plan.row_tile = round_up(ceil_div(rows, plan.row_tiles), plan.is_direct ? 1 : kPanelRows);
  choose_chunks(plan);
  const int64_t panel_work = kPanelRows * plan.inputs * (8 + std::min(rows, kRowTile)) / 8;
  const int64_t smallest = ceil_div(kSmallestItemWork, std::max<int64_t>(panel_work, 1));
  const int64_t wanted_items = 4 * static_cast<int64_t>(ctx.threads.threads());
  const int64_t even_share = plan.panels * plan.row_tiles / wanted_items;
  const int64_t largest = kLargestItem * kRowTile / plan.row_tile;  // the sums stay in L2
  int64_t share =
      std::clamp(std::max(std::min(even_share, kLargestItem), smallest), int64_t{1}, largest);
  share = ceil_div(plan.panels, ceil_div(plan.panels, share));
  plan.panels_per_item = std::max<int64_t>(share, 1);
}

void make_plan(ExecContext& ctx, Plan& plan, const Plan* before, bool may_use_dot) {
  const LinearCall& call = *plan.call;
  const Weight& weight = call.layer->weight;
  const Format& format = format_of(weight);
  plan.inputs = round_up(weight.inputs, 2);
  plan.is_direct = call.rows <= kDirectRows;
  plan.is_streaming = call.rows <= kStreamedRows;
  const bool is_pairs = may_use_dot && ctx.isa >= IsaLevel::avx512 && !plan.is_direct &&
                        !plan.x_is_f32 && !format.pair_panels.empty();
  if (plan.is_direct || plan.inputs != weight.inputs) {
    // An odd number of inputs is rare enough to go through floats on every path.
    make_direct(ctx, plan, before);
  }
  const PanelKind kind = is_pairs && !plan.x_is_f32 ? PanelKind::pairs : PanelKind::f32;
  plan.bytes_per_input = kind == PanelKind::pairs ? kPairPanelBytes : kF32PanelBytes;
  plan.unpack_x = pick(ctx, plan.x_is_f32 ? kF32Format.f32_panels : kBf16Format.panels(kind));
  plan.unpack_w = pick(ctx, format.panels(kind));
  plan.multiply = pick(ctx, multiply_variants(kind));
  plan.fused = call.rows == 1 ? fused_kernel(weight, ctx.isa) : nullptr;
  plan.fold = format.block_scale != nullptr ? pick(ctx, fold_variants()) : nullptr;
  plan.factor = (format.factor != nullptr ? format.factor(weight) : 1.0f) * call.layer->input_scale;
  plan.threads = ctx.threads.threads();
  plan.store = pick(ctx, call.out == DType::bf16 ? store_bf16_variants() : store_f32_variants());
  choose_tiles(ctx, plan);
}

}  // namespace

std::span<const Plan> make_plans(ExecContext& ctx, std::span<const LinearCall> calls,
                                 bool may_use_dot) {
  const int64_t count = static_cast<int64_t>(calls.size());
  Plan* plans = ctx.scratch.allocate<Plan>(count);
  for (int64_t i = 0; i < count; ++i) {
    check_call(calls[static_cast<size_t>(i)]);
    plans[i] = Plan{};
    plans[i].call = &calls[static_cast<size_t>(i)];
  }
  apply_input_rules(ctx, calls, plans);
  int64_t used = 0;  // plans with work to do
  int64_t items = 0;
  for (int64_t i = 0; i < count; ++i) {
    Plan plan = plans[i];
    if (plan.call->rows == 0 || plan.call->layer->weight.outputs == 0) {
      continue;
    }
    make_plan(ctx, plan, used > 0 ? &plans[used - 1] : nullptr, may_use_dot);
    plan.first_item = items;
    items += plan.items();
    plans[used++] = plan;
  }
  for (int64_t i = 0; i + 1 < used; ++i) {
    plans[i].next = &plans[i + 1];
  }
  return {plans, static_cast<size_t>(used)};
}

}  // namespace tessera::kernels
