#include "ops/moe/moe.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/activation/activation.h"
#include "ops/scalar_math.h"

namespace tessera {
namespace {

constexpr int64_t kMaxActive = 64;

float load_f32(const std::byte* p, int64_t i) {
  float value;
  std::memcpy(&value, p + 4 * i, 4);
  return value;
}

// One (row, pick) of the step, in the order in which experts compute them.
struct Slot {
  int32_t expert;
  int32_t row;
  int32_t pick;
};

// Slots ordered by expert, then row: counting sort. first [experts + 1].
void order_slots(const MoeArgs& a, Slot* slots, int64_t* first) {
  const int64_t experts = static_cast<int64_t>(a.experts.size());
  std::fill(first, first + experts + 1, 0);
  for (int64_t i = 0; i < a.rows * a.active; ++i) {
    TESSERA_CHECK(a.picks[i] >= 0 && a.picks[i] < experts);
    ++first[a.picks[i] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) {
    first[e + 1] += first[e];
  }
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t pick = 0; pick < a.active; ++pick) {
      const int32_t expert = a.picks[row * a.active + pick];
      slots[first[expert]++] = {expert, static_cast<int32_t>(row), static_cast<int32_t>(pick)};
    }
  }
  for (int64_t e = experts; e > 0; --e) {
    first[e] = first[e - 1];
  }
  first[0] = 0;
}

// The shared expert of all rows: y [rows, width].
void shared_expert(ExecContext& ctx, const MoeArgs& a, bf16* y) {
  const Arena::Scope scope(ctx.scratch);
  bf16* gate = ctx.scratch.allocate<bf16>(a.rows * a.ffn_dim);
  bf16* up = ctx.scratch.allocate<bf16>(a.rows * a.ffn_dim);
  const LinearCall calls[2] = {{a.x, a.rows, &a.shared->w1, gate, DType::bf16},
                               {a.x, a.rows, &a.shared->w3, up, DType::bf16}};
  linear_many(ctx, calls);
  swiglu(ctx, gate, up, nullptr, a.rows, a.ffn_dim, a.limit, gate);
  linear(ctx, gate, a.rows, a.shared->w2, y);
}

}  // namespace

void router_scores(ExecContext& ctx, const RouterSpec& spec, float* logits, int64_t rows) {
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t e = 0; e < spec.experts; ++e) {
      float& x = logits[row * spec.experts + e];
      const float z = x / spec.temperature;
      const double wide = static_cast<double>(z);
      x = static_cast<float>(std::sqrt(z > 20.0f ? wide : softplus_double(wide)));
    }
  });
}

void router_picks(ExecContext& ctx, const RouterSpec& spec, const float* scores,
                  const std::byte* const* bias, int64_t rows, int32_t* picks) {
  TESSERA_CHECK(spec.active <= kMaxActive && spec.active <= spec.experts);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    // Insertion into a short sorted list: strict comparison keeps the earlier id on a tie.
    float best[kMaxActive];
    int32_t ids[kMaxActive];
    int64_t count = 0;
    for (int64_t e = 0; e < spec.experts; ++e) {
      const float value = scores[row * spec.experts + e] + load_f32(bias[row], e);
      if (count == spec.active && !(value > best[count - 1])) {
        continue;
      }
      int64_t at = count < spec.active ? count++ : count - 1;
      for (; at > 0 && value > best[at - 1]; --at) {
        best[at] = best[at - 1];
        ids[at] = ids[at - 1];
      }
      best[at] = value;
      ids[at] = static_cast<int32_t>(e);
    }
    std::sort(ids, ids + count);
    std::copy(ids, ids + count, picks + row * spec.active);
  });
}

void router_weights(ExecContext& ctx, const RouterSpec& spec, const float* scores,
                    const int32_t* picks, int64_t rows, float* weights) {
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    float sum = 0;
    for (int64_t i = 0; i < spec.active; ++i) {
      sum += scores[row * spec.experts + picks[row * spec.active + i]];
    }
    for (int64_t i = 0; i < spec.active; ++i) {
      const float score = scores[row * spec.experts + picks[row * spec.active + i]];
      const float share = spec.normalise ? score / (sum + 1e-20f) : score;
      weights[row * spec.active + i] = share * spec.scale;
    }
  });
}

void moe(ExecContext& ctx, const MoeArgs& a) {
  const Arena::Scope scope(ctx.scratch);
  // First: the picked experts may still be on their way from the disk.
  bf16* shared = nullptr;
  if (a.shared != nullptr) {
    shared = ctx.scratch.allocate<bf16>(a.rows * a.width);
    shared_expert(ctx, a, shared);
  }
  const int64_t slots_count = a.rows * a.active;
  const int64_t experts = static_cast<int64_t>(a.experts.size());
  Slot* slots = ctx.scratch.allocate<Slot>(slots_count);
  int64_t* first = ctx.scratch.allocate<int64_t>(experts + 1);
  order_slots(a, slots, first);
  // Rows gathered per expert, in slot order.
  bf16* x = ctx.scratch.allocate<bf16>(slots_count * a.width);
  float* weights = ctx.scratch.allocate<float>(slots_count);
  int64_t* slot_of = ctx.scratch.allocate<int64_t>(slots_count);  // [rows, active]
  ctx.threads.parallel_for(slots_count, [&](int64_t i, int) {
    const Slot& slot = slots[i];
    std::memcpy(x + i * a.width, a.x + slot.row * a.width, static_cast<size_t>(a.width) * 2);
    weights[i] = a.weights[slot.row * a.active + slot.pick];
    slot_of[slot.row * a.active + slot.pick] = i;
  });
  bf16* gate = ctx.scratch.allocate<bf16>(slots_count * a.ffn_dim);
  bf16* up = ctx.scratch.allocate<bf16>(slots_count * a.ffn_dim);
  bf16* out = ctx.scratch.allocate<bf16>(slots_count * a.width);
  LinearCall* calls = ctx.scratch.allocate<LinearCall>(2 * experts);
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t rows = first[e + 1] - first[e];
    if (rows > 0) {
      const bf16* in = x + first[e] * a.width;
      calls[count++] = {in, rows, &a.experts[static_cast<size_t>(e)].w1,
                        gate + first[e] * a.ffn_dim, DType::bf16};
      calls[count++] = {in, rows, &a.experts[static_cast<size_t>(e)].w3, up + first[e] * a.ffn_dim,
                        DType::bf16};
    }
  }
  linear_many(ctx, {calls, static_cast<size_t>(count)});
  swiglu(ctx, gate, up, weights, slots_count, a.ffn_dim, a.limit, gate);
  count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t rows = first[e + 1] - first[e];
    if (rows > 0) {
      calls[count++] = {gate + first[e] * a.ffn_dim, rows, &a.experts[static_cast<size_t>(e)].w2,
                        out + first[e] * a.width, DType::bf16};
    }
  }
  linear_many(ctx, {calls, static_cast<size_t>(count)});
  ctx.threads.parallel_for(a.rows, [&](int64_t row, int) {
    for (int64_t i = 0; i < a.width; ++i) {
      float sum = 0;
      for (int64_t pick = 0; pick < a.active; ++pick) {
        sum += to_float(out[slot_of[row * a.active + pick] * a.width + i]);
      }
      if (shared != nullptr) {
        sum += to_float(shared[row * a.width + i]);
      }
      a.y[row * a.width + i] = to_bf16(sum);
    }
  });
}

}  // namespace tessera
