#include "ops/sparse_attention/sparse_attention.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "ops/sparse_attention/kernels.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const SparseAttentionKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kSparseAttentionReference},
     {IsaLevel::avx2, &kSparseAttentionAvx2},
     {IsaLevel::avx512, &kSparseAttentionAvx512}}};

constexpr int64_t kRowTile = 8;  // neighbouring queries share unpacked window rows

// Rows [first, first + count) of a run for head groups [group, group + groups).
struct Item {
  const AttentionRun* run;
  int64_t first, count;
  int64_t group, groups;
};

// Scratch of one thread.
struct Buffers {
  float* window;       // [window + kRowTile][head_dim]
  float* listed;       // [list_stride][head_dim]
  const float** keys;  // [window + list_stride]
  float* q;            // [head_dim][16]
  float* p;            // [window + list_stride][16]
  float* o;            // [16][head_dim]
};

Buffers make_buffers(Arena& arena, const AttentionArgs& a) {
  const int64_t keys = a.window + a.list_stride;
  return {.window = arena.allocate<float>((a.window + kRowTile) * a.head_dim),
          .listed = arena.allocate<float>(a.list_stride * a.head_dim),
          .keys = arena.allocate<const float*>(keys),
          .q = arena.allocate<float>(a.head_dim * kHeadLanes),
          .p = arena.allocate<float>(keys * kHeadLanes),
          .o = arena.allocate<float>(a.head_dim * kHeadLanes)};
}

// Unpacks the window keys of positions [first, last) of a run.
void unpack_window(const AttentionArgs& a, const AttentionRun& run, int64_t first, int64_t last,
                   float* out) noexcept {
  const int64_t row_bytes = window_row_bytes(a.head_dim);
  for (int64_t p = first; p < last; ++p) {
    const std::byte* row = p >= run.fresh_start ? run.fresh + (p - run.fresh_start) * row_bytes
                                                : run.ring + (p % a.window) * row_bytes;
    unpack_row(GroupFormat::e4m3_e8m0_32, row, row + a.head_dim, a.head_dim,
               out + (p - first) * a.head_dim);
  }
}

// The 16 heads from `first`, transposed; lanes beyond the last head are zero.
void load_heads(const AttentionArgs& a, int64_t row, int64_t first, float* q,
                float* sinks) noexcept {
  for (int64_t l = 0; l < kHeadLanes; ++l) {
    const int64_t head = first + l;
    const bool exists = head < a.heads;
    const bf16* in = a.q + (row * a.heads + (exists ? head : 0)) * a.head_dim;
    for (int64_t i = 0; i < a.head_dim; ++i) {
      q[i * kHeadLanes + l] = exists ? to_float(in[i]) : 0.0f;
    }
    sinks[l] = 0;
    if (exists) {
      std::memcpy(&sinks[l], a.sinks + head * 4, 4);
    }
  }
}

void attend_row(const AttentionArgs& a, const SparseAttentionKernels& kernels, const Item& item,
                int64_t row, int64_t window_first, const Buffers& b) noexcept {
  const int64_t position = a.positions[row];
  int64_t count = 0;
  for (int64_t p = std::max<int64_t>(0, position - a.window + 1); p <= position; ++p) {
    b.keys[count++] = b.window + (p - window_first) * a.head_dim;
  }
  for (int64_t i = 0; i < a.list_stride; ++i) {
    const int32_t entry = a.lists[row * a.list_stride + i];
    if (entry < 0) {
      break;
    }
    float* out = b.listed + i * a.head_dim;
    const PageTable& table = *item.run->compressed;
    unpack_row(table.layout().format, table.codes(entry), table.scales(entry), a.head_dim, out);
    b.keys[count++] = out;
  }
  for (int64_t group = item.group; group < item.group + item.groups; ++group) {
    const int64_t first_head = group * kHeadLanes;
    float sinks[kHeadLanes];
    load_heads(a, row, first_head, b.q, sinks);
    kernels.attend(b.q, b.keys, count, a.head_dim, a.scale, sinks, b.p, b.o);
    const int64_t heads = std::min(kHeadLanes, a.heads - first_head);
    bf16* out = a.o + (row * a.heads + first_head) * a.head_dim;
    for (int64_t i = 0; i < heads * a.head_dim; ++i) {
      out[i] = to_bf16(b.o[i]);
    }
  }
}

}  // namespace

int64_t window_row_bytes(int64_t head_dim) {
  return group_code_bytes(GroupFormat::e4m3_e8m0_32, head_dim) +
         group_scale_bytes(GroupFormat::e4m3_e8m0_32, head_dim);
}

void sparse_attention(ExecContext& ctx, const AttentionArgs& args,
                      std::span<const AttentionRun> runs) {
  TESSERA_CHECK(args.head_dim % 32 == 0 && args.window > 0);
  TESSERA_CHECK(args.lists != nullptr || args.list_stride == 0);
  const SparseAttentionKernels* kernels = pick<const SparseAttentionKernels*>(ctx, kVariants);
  const Arena::Scope scope(ctx.scratch);
  const int64_t head_groups = ceil_div(args.heads, kHeadLanes);
  int64_t tiles = 0;
  for (const AttentionRun& run : runs) {
    tiles += ceil_div(run.rows, kRowTile);
  }
  // Few tiles: split the heads too, at the price of unpacking the keys once per group.
  const int64_t splits = tiles >= 2 * ctx.threads.threads() ? 1 : head_groups;
  Item* items = ctx.scratch.allocate<Item>(tiles * splits);
  int64_t count = 0;
  for (const AttentionRun& run : runs) {
    for (int64_t first = 0; first < run.rows; first += kRowTile) {
      for (int64_t split = 0; split < splits; ++split) {
        items[count++] = {&run, run.first_row + first, std::min(kRowTile, run.rows - first),
                          splits == 1 ? 0 : split, splits == 1 ? head_groups : 1};
      }
    }
  }
  Buffers* buffers = ctx.scratch.allocate<Buffers>(ctx.threads.threads());
  for (int thread = 0; thread < ctx.threads.threads(); ++thread) {
    buffers[thread] = make_buffers(ctx.scratch, args);
  }
  ctx.threads.parallel_for(count, [&](int64_t index, int thread) {
    const Item& item = items[index];
    const Buffers& b = buffers[thread];
    // Rows of a run may leave gaps between positions: then a tile unpacks row by row.
    const int64_t first_position = args.positions[item.first];
    const int64_t last_position = args.positions[item.first + item.count - 1];
    const bool is_contiguous = last_position - first_position == item.count - 1;
    int64_t window_first = std::max<int64_t>(0, first_position - args.window + 1);
    if (is_contiguous) {
      unpack_window(args, *item.run, window_first, last_position + 1, b.window);
    }
    for (int64_t row = item.first; row < item.first + item.count; ++row) {
      if (!is_contiguous) {
        const int64_t position = args.positions[row];
        window_first = std::max<int64_t>(0, position - args.window + 1);
        unpack_window(args, *item.run, window_first, position + 1, b.window);
      }
      attend_row(args, *kernels, item, row, window_first, b);
    }
  });
}

}  // namespace tessera
