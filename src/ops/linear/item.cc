#include "ops/linear/plan.h"

namespace tessera::kernels {
namespace {

// Panels are relative to the weight.
struct Item {
  int64_t first_row, rows;
  int64_t first_panel, panels;
  int64_t next_item;  // the one that this thread will most likely get next, perhaps of plan.next
};

Item item_at(const Plan& plan, int64_t index) {
  Item item;
  item.first_row = index % plan.row_tiles * plan.row_tile;
  item.rows = std::min(plan.row_tile, plan.call->rows - item.first_row);
  item.first_panel = index / plan.row_tiles * plan.panels_per_item;
  item.panels = std::min(plan.panels_per_item, plan.panels - item.first_panel);
  // Threads take items one by one: while this one was in work, the others took one each.
  item.next_item = index + plan.threads;
  return item;
}

// More than this of 16 rows at a time would keep the core waiting.
constexpr int64_t kPrefetchedRowBytes = 1024;

// Inputs [first_input, first_input + inputs) of the item's rows to panels. The rows of the next
// panel are on their way while one is packed.
void pack_rows(const Plan& plan, const Item& item, int64_t first_input, int64_t inputs,
               std::byte* panels) {
  const int64_t input_bytes = plan.x_is_f32 ? 4 : 2;
  for (int64_t r = 0; r < item.rows; r += kPanelRows) {
    const bool is_short = inputs * input_bytes <= kPrefetchedRowBytes;
    const int64_t next_end = is_short ? std::min(r + 2 * kPanelRows, item.rows) : r;
    for (int64_t next = r + kPanelRows; next < next_end; ++next) {
      const std::byte* from =
          plan.x + (item.first_row + next) * plan.x_row_bytes + first_input * input_bytes;
      for (int64_t byte = 0; byte < inputs * input_bytes; byte += 64) {
        __builtin_prefetch(from + byte, 0, 2);
      }
    }
    UnpackArgs args{};
    args.codes = plan.x + (item.first_row + r) * plan.x_row_bytes;
    args.row_bytes = plan.x_row_bytes;
    args.rows = std::min(kPanelRows, item.rows - r);
    args.first = first_input;
    args.count = inputs;
    args.panel = panels + r / kPanelRows * plan.x_panel_bytes();
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
    args.panel = panels + p * plan.w_panel_bytes();
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

MultiplyArgs multiply_args(const Plan& plan, const std::byte* w_panels) {
  MultiplyArgs args{};
  args.x_input_stride = kPanelRows;
  args.w = w_panels;
  args.w_panel_bytes = plan.w_panel_bytes();
  args.acc_stride = plan.acc_stride();
  return args;
}

// Brings the codes of one group of panels, one chunk of K, into L2 in equal steps between other
// work: its rows lie apart, and all at once they would stall the core.
class GroupPrefetch {
 public:
  GroupPrefetch(const Plan& plan, int64_t first_panel, int64_t panels, int64_t first_input,
                int64_t steps) {
    const Weight& weight = plan.call->layer->weight;
    const int64_t last_input = std::min(first_input + plan.chunk, weight.inputs);
    row_bytes_ = plan.w_row_bytes;
    at_ = panel_source(weight, first_panel).codes + first_input * row_bytes_ / weight.inputs;
    bytes_ = (last_input - first_input) * row_bytes_ / weight.inputs;
    rows_ = std::min(panels * kPanelRows, weight.outputs - first_panel * kPanelRows);
    step_ = ceil_div(rows_, steps);
  }
  GroupPrefetch() = default;

  void step() {
    const int64_t rows = std::min(rows_, step_);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t byte = 0; byte < bytes_; byte += 64) {
        __builtin_prefetch(at_ + byte, 0, 2);
      }
      at_ += row_bytes_;
    }
    rows_ -= rows;
  }

 private:
  const std::byte* at_ = nullptr;
  int64_t row_bytes_ = 0;
  int64_t bytes_ = 0;
  int64_t rows_ = 0;
  int64_t step_ = 0;
};

// The group that follows the one at panel p of chunk k.
GroupPrefetch next_group(const Plan& plan, const Item& item, int64_t p, int64_t k) {
  const int64_t steps = ceil_div(item.rows, kPanelRows);
  p += plan.group;
  if (p >= item.panels) {
    p = 0;
    k += plan.chunk;
  }
  if (k >= plan.call->layer->weight.inputs) {
    return {};
  }
  return {plan, item.first_panel + p, std::min(plan.group, item.panels - p), k, steps};
}

// acc of all rows from one chunk of K and the panels of `args`; x_panels begins at that chunk.
void multiply_packed(const Plan& plan, const Item& item, const std::byte* x_panels, float* acc,
                     MultiplyArgs args, GroupPrefetch& next) {
  for (int64_t r = 0; r < item.rows; r += kPanelRows) {
    args.rows = std::min(kPanelRows, item.rows - r);
    args.x = x_panels + r / kPanelRows * plan.x_panel_bytes();
    args.acc = acc + r * args.acc_stride;
    plan.multiply(args);
    next.step();
  }
}

// The sums of an item. Formats that multiply the sums over a block of inputs by its scale
// (plan.fold) make them in `part`, one chunk of K at a time.
struct Sums {
  float* acc;   // [rows, acc_stride]
  float* part;  // the same; acc itself without plan.fold

  Sums from_panel(int64_t panel) const {
    return {acc + panel * kPanelRows, part + panel * kPanelRows};
  }
};

// Adds the block of inputs at k of `count` panels from item panel p on; `sums` begins there.
void fold_block(const Plan& plan, const Item& item, int64_t p, int64_t count, int64_t k,
                const Sums& sums) {
  if (plan.fold == nullptr) {
    return;
  }
  const Weight& weight = plan.call->layer->weight;
  float scales[kLargestGroup];
  for (int64_t t = 0; t < count; ++t) {
    const int64_t row = (item.first_panel + p + t) * kPanelRows;
    scales[t] = format_of(weight).block_scale(weight, row, k / plan.chunk);
  }
  plan.fold({.part = sums.part,
             .acc = sums.acc,
             .acc_stride = plan.acc_stride(),
             .rows = item.rows,
             .panels = count,
             .scales = scales,
             .is_first = k == 0});
}

// What will be read after panels [0, done) of an item of one row.
void prefetch_after(const Plan& plan, const Item& item, int64_t done, FusedArgs& args) {
  const Plan* next = &plan;
  int64_t panel = item.first_panel + done;
  if (done >= item.panels) {
    panel = item.next_item * plan.panels_per_item;
    if (item.next_item >= plan.items() && plan.next != nullptr) {
      next = plan.next;
      panel = (item.next_item - plan.items()) / next->row_tiles * next->panels_per_item;
    }
  }
  if (panel < next->panels) {
    const UnpackArgs source = panel_source(next->call->layer->weight, panel);
    args.prefetch = source.codes;
    args.prefetch_scales = source.scales;
  }
}

// One group of whole panels, codes straight to sums. False where the panels have to do it.
bool multiply_fused(const Plan& plan, const Item& item, int64_t p, int64_t count,
                    const Sums& sums) {
  const Weight& weight = plan.call->layer->weight;
  const int64_t first = item.first_panel + p;
  if (plan.fused == nullptr || (first + count) * kPanelRows > weight.outputs) {
    return false;
  }
  FusedArgs args{};
  for (int64_t t = 0; t < count; ++t) {
    const UnpackArgs source = panel_source(weight, first + t);
    args.tiles[t] = {source.codes, source.scales};
    args.row_bytes = source.row_bytes;
    args.scale_row_bytes = source.scale_row_bytes;
    args.block = source.block;
  }
  args.tile_count = count;
  args.acc = sums.part;
  prefetch_after(plan, item, p + count, args);
  const int64_t step = plan.fold == nullptr ? weight.inputs : plan.chunk;
  for (int64_t k = 0; k < weight.inputs; k += step) {
    args.x = reinterpret_cast<const float*>(plan.x) + k;
    args.inputs = std::min(step, weight.inputs - k);
    if (!plan.fused(args)) {
      return false;
    }
    fold_block(plan, item, p, count, k, sums);
    const int64_t row_bytes = args.inputs * args.row_bytes / weight.inputs;
    for (int64_t t = 0; t < count; ++t) {
      args.tiles[t].codes += row_bytes;
    }
    args.prefetch += args.prefetch != nullptr ? count * kPanelRows * row_bytes : 0;
  }
  return true;
}

void accumulate_streaming(const Plan& plan, const Item& item, std::byte* x_panels,
                          std::byte* w_panels, const Sums& all) {
  const Weight& weight = plan.call->layer->weight;
  MultiplyArgs args = multiply_args(plan, w_panels);
  GroupPrefetch none;
  if (!plan.is_direct) {
    pack_rows(plan, item, 0, plan.inputs, x_panels);
  }
  for (int64_t p = 0; p < item.panels; p += plan.group) {
    args.panels = std::min(plan.group, item.panels - p);
    const Sums sums = all.from_panel(p);
    if (multiply_fused(plan, item, p, args.panels, sums)) {
      continue;
    }
    const int64_t next = item.first_panel + p + args.panels;
    const bool has_next = (next + args.panels) * kPanelRows <= weight.outputs;
    const std::byte* prefetch = has_next ? panel_source(weight, next).codes : nullptr;
    if (has_next) {
      prefetch_scales(weight, next, args.panels);
    }
    for (int64_t k = 0; k < plan.inputs; k += plan.chunk) {
      args.inputs = std::min(plan.chunk, plan.inputs - k);
      args.is_first = k == 0 || plan.fold != nullptr;
      unpack_weights(plan, item.first_panel + p, args.panels, k, args.inputs, w_panels, prefetch);
      if (plan.is_direct) {
        args.x_stride = plan.x_row_bytes / 4;
        args.rows = item.rows;
        args.x = plan.x + k * 4;
        args.acc = sums.part;
        plan.multiply(args);
      } else {
        multiply_packed(plan, item, x_panels + k * plan.bytes_per_input, sums.part, args, none);
      }
      fold_block(plan, item, p, args.panels, k, sums);
      if (has_next) {
        prefetch += args.panels * kPanelRows * plan.chunk * plan.w_row_bytes / weight.inputs;
      }
    }
  }
}

void accumulate_blocked(const Plan& plan, const Item& item, std::byte* x_panels,
                        std::byte* w_panels, const Sums& all) {
  MultiplyArgs args = multiply_args(plan, w_panels);
  for (int64_t k = 0; k < plan.inputs; k += plan.chunk) {
    args.inputs = std::min(plan.chunk, plan.inputs - k);
    args.is_first = k == 0 || plan.fold != nullptr;
    pack_rows(plan, item, k, args.inputs, x_panels);
    for (int64_t p = 0; p < item.panels; p += plan.group) {
      args.panels = std::min(plan.group, item.panels - p);
      unpack_weights(plan, item.first_panel + p, args.panels, k, args.inputs, w_panels, nullptr);
      GroupPrefetch next = next_group(plan, item, p, k);
      const Sums sums = all.from_panel(p);
      multiply_packed(plan, item, x_panels, sums.part, args, next);
      fold_block(plan, item, p, args.panels, k, sums);
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
  store.factor = plan.factor;
  store.bias = bias == nullptr ? nullptr : bias + first_output * 2;
  store.y = static_cast<std::byte*>(plan.call->y) +
            (item.first_row * weight.outputs + first_output) * y_bytes;
  store.y_stride = weight.outputs;
  plan.store(store);
}

}  // namespace

void run_item(const Plan& plan, int64_t index, std::byte* scratch) noexcept {
  const Item item = item_at(plan, index);
  std::byte* x_panels = scratch;
  std::byte* w_panels = x_panels + plan.x_scratch_bytes();
  std::byte* sums = w_panels + plan.w_scratch_bytes();
  float* acc = reinterpret_cast<float*>(sums);
  float* part = plan.fold == nullptr ? acc : reinterpret_cast<float*>(sums + plan.acc_bytes());
  if (plan.is_streaming) {
    accumulate_streaming(plan, item, x_panels, w_panels, {acc, part});
  } else {
    accumulate_blocked(plan, item, x_panels, w_panels, {acc, part});
  }
  store_item(plan, item, acc);
}

}  // namespace tessera::kernels
