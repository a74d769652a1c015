#include "ops/linear/linear.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "ops/linear/panel.h"
#include "ops/linear/variants.h"
#include "ops/quantize/quantize.h"

namespace tessera {
namespace kernels {
namespace {

// Tiles. A panel chunk of 16 KiB (two of them for a group) stays in L1 while the packed inputs of a
// row tile, 256 KiB, stream past it from L2.
constexpr int64_t kPanelChunkBytes = 16 << 10;
constexpr int64_t kRowTile = 256;
constexpr int64_t kPackedGroup = 2;   // panels unpacked at a time
constexpr int64_t kLargestItem = 16;  // panels of one item
// Up to this many rows are read where they lie: the work is streaming and unpacking the weights. A
// group of panels is worked off over all of K while the next one, as it lies in memory, is
// prefetched into L2: two groups must fit there.
constexpr int64_t kDirectRows = 4;
constexpr int64_t kLargestDirectGroup = 4;
constexpr int64_t kDirectGroupBytes = 512 << 10;
constexpr int64_t kDirectChunkBytes = 32 << 10;  // of a group of panels: L1
// Weight elements to unpack, one row costing an eighth of the unpacking: below some microseconds of
// it an item is not worth a thread.
constexpr int64_t kSmallestItemWork = 60000;

struct Plan {
  const LinearCall* call = nullptr;
  // Inputs after the input rule, padded to even: bf16 or float [rows, x_row_bytes].
  const std::byte* x = nullptr;
  int64_t x_row_bytes = 0;
  bool x_is_f32 = false;
  bool is_direct = false;  // x is float and read in place
  UnpackFn unpack_x = nullptr;
  UnpackFn unpack_w = nullptr;
  MultiplyFn multiply = nullptr;
  StoreFn store = nullptr;
  int64_t bytes_per_input = 0;  // of a panel
  int64_t inputs = 0;           // padded to even
  int64_t chunk = 0;            // inputs unpacked at a time
  int64_t group = 0;            // panels unpacked at a time
  int64_t row_tile = 0;
  int64_t row_tiles = 0;
  int64_t panels = 0;
  int64_t panels_per_item = 0;
  int64_t first_item = 0;
  int64_t w_row_bytes = 0;

  int64_t items() const { return row_tiles * ceil_div(panels, panels_per_item); }
  int64_t panel_bytes() const { return chunk * bytes_per_input; }
  int64_t x_scratch_bytes() const {
    return is_direct ? 0 : ceil_div(row_tile, kPanelRows) * panel_bytes();
  }
  int64_t w_scratch_bytes() const { return group * panel_bytes(); }
  int64_t acc_stride() const { return panels_per_item * kPanelRows; }
  int64_t acc_scratch_bytes() const {
    return row_tile * acc_stride() * static_cast<int64_t>(sizeof(float));
  }
  int64_t scratch_bytes() const {
    return x_scratch_bytes() + w_scratch_bytes() + acc_scratch_bytes();
  }
};

void check_call(const LinearCall& call) {
  TESSERA_CHECK(call.layer != nullptr && call.rows >= 0);
  const Linear& layer = *call.layer;
  const bool is_f32 = std::holds_alternative<WeightF32>(layer.weight.format);
  const bool is_bf16 = std::holds_alternative<WeightBf16>(layer.weight.format);
  TESSERA_CHECK(layer.weight.inputs > 0 && layer.weight.outputs >= 0);
  TESSERA_CHECK(call.out == DType::bf16 || call.out == DType::f32);
  TESSERA_CHECK((call.x == nullptr) != (call.x32 == nullptr) || call.rows == 0);
  if (call.x32 != nullptr) {
    TESSERA_CHECK(call.out == DType::f32 && layer.input == InputRule::none);
    TESSERA_CHECK(is_f32 || is_bf16);
  }
  if (const WeightFp8Block* w = std::get_if<WeightFp8Block>(&layer.weight.format)) {
    TESSERA_CHECK(w->block >= 32 && w->block % 32 == 0);
  }
  if (std::holds_alternative<WeightMxfp4>(layer.weight.format)) {
    TESSERA_CHECK(layer.weight.inputs % 32 == 0);
  }
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
    if (call.layer->input != InputRule::e4m3_32 || call.layer->weight.inputs != inputs) {
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
    quantize_dequantize_e4m3(ctx, call.x, rows, inputs, quantised);
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
                         before->call->layer->input == call.layer->input;
  if (is_same_x) {
    plan.x = before->x;
  } else if (!plan.x_is_f32 || plan.inputs != inputs) {
    plan.x = reinterpret_cast<const std::byte*>(widen(ctx, plan, call.rows, inputs));
  }
  plan.x_is_f32 = true;
  plan.x_row_bytes = plan.inputs * 4;
}

void choose_tiles(const ExecContext& ctx, Plan& plan) {
  const int64_t rows = plan.call->rows;
  plan.panels = ceil_div(plan.call->layer->weight.outputs, kPanelRows);
  plan.row_tiles = ceil_div(rows, kRowTile);
  plan.row_tile = round_up(ceil_div(rows, plan.row_tiles), plan.is_direct ? 1 : kPanelRows);
  int64_t chunk_bytes = kPanelChunkBytes;
  plan.group = kPackedGroup;
  if (plan.is_direct) {
    plan.w_row_bytes = panel_source(plan.call->layer->weight, 0).row_bytes;
    plan.group = std::clamp(kDirectGroupBytes / (plan.w_row_bytes * kPanelRows), int64_t{1},
                            kLargestDirectGroup);
    chunk_bytes = kDirectChunkBytes / plan.group;
  }
  plan.chunk = std::min(round_up(plan.inputs, 32), chunk_bytes / plan.bytes_per_input);
  const int64_t panel_work = kPanelRows * plan.inputs * (8 + std::min(rows, kRowTile)) / 8;
  const int64_t smallest = ceil_div(kSmallestItemWork, std::max<int64_t>(panel_work, 1));
  const int64_t wanted_items = 4 * static_cast<int64_t>(ctx.threads.threads());
  const int64_t even_share = plan.panels * plan.row_tiles / wanted_items;
  int64_t share = std::clamp(std::max(even_share, smallest), int64_t{1}, kLargestItem);
  share = ceil_div(plan.panels, ceil_div(plan.panels, share));
  plan.panels_per_item = std::max<int64_t>(share, 1);
}

void make_plan(ExecContext& ctx, Plan& plan, const Plan* before, bool may_use_dot) {
  const LinearCall& call = *plan.call;
  const Weight& weight = call.layer->weight;
  plan.inputs = round_up(weight.inputs, 2);
  plan.is_direct = call.rows <= kDirectRows;
  const bool is_pairs = may_use_dot && ctx.isa >= IsaLevel::avx512 && !plan.is_direct &&
                        !plan.x_is_f32 && !std::holds_alternative<WeightF32>(weight.format);
  if (plan.is_direct || plan.inputs != weight.inputs) {
    // An odd number of inputs is rare enough to go through floats on every path.
    make_direct(ctx, plan, before);
  }
  const PanelKind kind = is_pairs && !plan.x_is_f32 ? PanelKind::pairs : PanelKind::f32;
  plan.bytes_per_input = kind == PanelKind::pairs ? kPairPanelBytes : kF32PanelBytes;
  plan.unpack_x = pick(ctx, plan.x_is_f32 ? unpack_f32_variants() : unpack_bf16_variants(kind));
  plan.unpack_w = pick(ctx, unpack_variants(weight, kind));
  plan.multiply = pick(ctx, multiply_variants(kind));
  plan.store = pick(ctx, call.out == DType::bf16 ? store_bf16_variants() : store_f32_variants());
  choose_tiles(ctx, plan);
}

// Where an item works. Panels are relative to the weight.
struct Item {
  int64_t first_row, rows;
  int64_t first_panel, panels;
};

Item item_at(const Plan& plan, int64_t index) {
  Item item;
  item.first_row = index % plan.row_tiles * plan.row_tile;
  item.rows = std::min(plan.row_tile, plan.call->rows - item.first_row);
  item.first_panel = index / plan.row_tiles * plan.panels_per_item;
  item.panels = std::min(plan.panels_per_item, plan.panels - item.first_panel);
  return item;
}

void pack_rows(const Plan& plan, const Item& item, int64_t first_input, int64_t inputs,
               std::byte* panels) {
  for (int64_t r = 0; r < item.rows; r += kPanelRows) {
    UnpackArgs args{};
    args.codes = plan.x + (item.first_row + r) * plan.x_row_bytes;
    args.row_bytes = plan.x_row_bytes;
    args.rows = std::min(kPanelRows, item.rows - r);
    args.first = first_input;
    args.count = inputs;
    args.panel = panels + r / kPanelRows * plan.panel_bytes();
    plan.unpack_x(args);
  }
}

// Unpacks `count` panels of weights, `inputs` inputs of them, and prefetches as much.
void unpack_weights(const Plan& plan, int64_t first_panel, int64_t count, int64_t first_input,
                    int64_t inputs, std::byte* panels, const std::byte* prefetch) {
  for (int64_t p = 0; p < count; ++p) {
    UnpackArgs args = panel_source(plan.call->layer->weight, first_panel + p);
    args.first = first_input;
    args.count = std::min(inputs, plan.call->layer->weight.inputs - first_input);
    args.panel = panels + p * plan.panel_bytes();
    args.prefetch = prefetch;
    if (prefetch != nullptr) {
      prefetch += args.count * args.row_bytes / plan.call->layer->weight.inputs * kPanelRows;
    }
    plan.unpack_w(args);
  }
}

// MXFP4 has a scale for every 16 bytes of codes, in memory of its own.
void prefetch_scales(const Weight& weight, int64_t panel, int64_t panels) {
  const UnpackArgs source = panel_source(weight, panel);
  for (int64_t at = 0; at < source.scale_row_bytes * panels * kPanelRows; at += 64) {
    __builtin_prefetch(source.scales + at, 0, 2);
  }
}

// Accumulators of an item from a few rows: group by group of panels, each over all of K.
void accumulate_direct(const Plan& plan, const Item& item, std::byte* w_panels, float* acc) {
  const Weight& weight = plan.call->layer->weight;
  MultiplyArgs args{};
  args.x_stride = plan.x_row_bytes / 4;
  args.rows = item.rows;
  args.w = w_panels;
  args.w_panel_bytes = plan.panel_bytes();
  args.acc_stride = plan.acc_stride();
  for (int64_t p = 0; p < item.panels; p += plan.group) {
    args.panels = std::min(plan.group, item.panels - p);
    args.acc = acc + p * kPanelRows;
    const int64_t next = item.first_panel + p + args.panels;
    const bool has_next = (next + args.panels) * kPanelRows <= weight.outputs;
    const std::byte* prefetch = has_next ? panel_source(weight, next).codes : nullptr;
    if (has_next) {
      prefetch_scales(weight, next, args.panels);
    }
    for (int64_t k = 0; k < plan.inputs; k += plan.chunk) {
      args.inputs = std::min(plan.chunk, plan.inputs - k);
      args.is_first = k == 0;
      args.x = plan.x + k * 4;
      unpack_weights(plan, item.first_panel + p, args.panels, k, args.inputs, w_panels, prefetch);
      plan.multiply(args);
      if (has_next) {
        prefetch += args.panels * kPanelRows * plan.chunk * plan.w_row_bytes / weight.inputs;
      }
    }
  }
}

// Accumulators of an item from packed rows: chunk by chunk of K, each over all panels.
void accumulate_packed(const Plan& plan, const Item& item, std::byte* x_panels, std::byte* w_panels,
                       float* acc) {
  MultiplyArgs args{};
  args.x_input_stride = kPanelRows;
  args.w = w_panels;
  args.w_panel_bytes = plan.panel_bytes();
  args.acc_stride = plan.acc_stride();
  for (int64_t k = 0; k < plan.inputs; k += plan.chunk) {
    args.inputs = std::min(plan.chunk, plan.inputs - k);
    args.is_first = k == 0;
    pack_rows(plan, item, k, args.inputs, x_panels);
    for (int64_t p = 0; p < item.panels; p += plan.group) {
      args.panels = std::min(plan.group, item.panels - p);
      unpack_weights(plan, item.first_panel + p, args.panels, k, args.inputs, w_panels, nullptr);
      for (int64_t r = 0; r < item.rows; r += kPanelRows) {
        args.rows = std::min(kPanelRows, item.rows - r);
        args.x = x_panels + r / kPanelRows * plan.panel_bytes();
        args.acc = acc + r * args.acc_stride + p * kPanelRows;
        plan.multiply(args);
      }
    }
  }
}

void store_item(const Plan& plan, const Item& item, const float* acc) {
  const Weight& weight = plan.call->layer->weight;
  const std::byte* bias = plan.call->layer->bias;
  const int64_t first_output = item.first_panel * kPanelRows;
  const int64_t y_bytes = plan.call->out == DType::bf16 ? 2 : 4;
  StoreArgs store{};
  store.acc = acc;
  store.acc_stride = plan.acc_stride();
  store.rows = item.rows;
  store.outputs = std::min(item.panels * kPanelRows, weight.outputs - first_output);
  store.bias = bias == nullptr ? nullptr : bias + first_output * 2;
  store.y = static_cast<std::byte*>(plan.call->y) +
            (item.first_row * weight.outputs + first_output) * y_bytes;
  store.y_stride = weight.outputs;
  plan.store(store);
}

void run_item(const Plan& plan, const Item& item, std::byte* scratch) {
  std::byte* x_panels = scratch;
  std::byte* w_panels = x_panels + plan.x_scratch_bytes();
  float* acc = reinterpret_cast<float*>(w_panels + plan.w_scratch_bytes());
  if (plan.is_direct) {
    accumulate_direct(plan, item, w_panels, acc);
  } else {
    accumulate_packed(plan, item, x_panels, w_panels, acc);
  }
  store_item(plan, item, acc);
}

}  // namespace

void run_linear(ExecContext& ctx, std::span<const LinearCall> calls, bool may_use_dot) {
  const Arena::Scope scope(ctx.scratch);
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
  int64_t scratch_bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    Plan plan = plans[i];
    if (plan.call->rows == 0 || plan.call->layer->weight.outputs == 0) {
      continue;
    }
    make_plan(ctx, plan, used > 0 ? &plans[used - 1] : nullptr, may_use_dot);
    plan.first_item = items;
    items += plan.items();
    scratch_bytes = std::max(scratch_bytes, round_up(plan.scratch_bytes(), kAlignment));
    plans[used++] = plan;
  }
  std::byte* scratch =
      ctx.scratch.allocate<std::byte>(scratch_bytes * static_cast<int64_t>(ctx.threads.threads()));
  ctx.threads.parallel_for(items, [&](int64_t item, int thread) {
    const Plan* plan =
        std::upper_bound(plans, plans + used, item,
                         [](int64_t value, const Plan& p) { return value < p.first_item; }) -
        1;
    run_item(*plan, item_at(*plan, item - plan->first_item), scratch + thread * scratch_bytes);
  });
}

}  // namespace kernels

void linear_many(ExecContext& ctx, std::span<const LinearCall> calls) {
  const bool may_use_dot = ctx.isa >= IsaLevel::avx512 && kernels::is_dot_faster();
  kernels::run_linear(ctx, calls, may_use_dot);
}

void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, bf16* y) {
  const LinearCall call{x, rows, &layer, y, DType::bf16};
  linear_many(ctx, {&call, 1});
}

void linear(ExecContext& ctx, const bf16* x, int64_t rows, const Linear& layer, float* y) {
  const LinearCall call{x, rows, &layer, y, DType::f32};
  linear_many(ctx, {&call, 1});
}

void linear(ExecContext& ctx, const float* x, int64_t rows, const Linear& layer, float* y) {
  const LinearCall call{nullptr, rows, &layer, y, DType::f32, x};
  linear_many(ctx, {&call, 1});
}

}  // namespace tessera
