#include "ops/vision_attention/tiles.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "ops/linear/variants.h"

namespace tessera::kernels {
namespace {

// A tile of 32 queries (two panels): its scores over all keys, 128 bytes a key, live in L2; a chunk
// of 64 keys of V (16 KiB at head_dim 64), its p and the sums live in L1.
constexpr int64_t kTilePanels = 2;
constexpr int64_t kTileQueries = kTilePanels * kPanelRows;
constexpr int64_t kChunkKeys = 64;

// Sizes and kernels of one call.
template <typename T>
struct Tiling {
  const VisionAttentionArgs<T>& args;
  const TileKernels& kernels;
  MultiplyFn multiply;
  UnpackFn unpack;
  int64_t panel_bytes;     // one panel of keys or queries
  int64_t key_panels;      // per head
  int64_t value_panels;    // per head: 16 columns of V each
  int64_t value_bytes;     // one of them: [tokens][16] float
  int64_t key_head_bytes;  // all key panels of a head

  int64_t head_bytes() const { return key_head_bytes + value_panels * value_bytes; }
  int64_t sum_stride() const { return value_panels * kPanelRows; }
};

// What a thread needs for a tile.
struct TileScratch {
  std::byte* queries;  // [kTilePanels] panels
  float* s;            // [tokens, kTileQueries]
  float* p;            // [kChunkKeys, kTileQueries]
  float* sums;         // [kTileQueries, sum_stride]
  float* largest;      // [kTileQueries]
  float* den;          // [kTileQueries]
};

template <typename T>
Tiling<T> make_tiling(const ExecContext& ctx, const VisionAttentionArgs<T>& args,
                      const TileKernels& kernels, bool may_use_dot) {
  const bool is_pairs = std::is_same_v<T, bf16> && ctx.isa >= IsaLevel::avx512 && may_use_dot;
  const PanelKind kind = is_pairs ? PanelKind::pairs : PanelKind::f32;
  Tiling<T> t{args, kernels, nullptr, nullptr, 0, 0, 0, 0, 0};
  t.multiply = pick(ctx, multiply_variants(kind));
  if constexpr (std::is_same_v<T, bf16>) {
    t.unpack = pick(ctx, kBf16Format.panels(kind));
  } else {
    t.unpack = pick(ctx, kF32Format.f32_panels);
  }
  t.panel_bytes = args.head_dim * (is_pairs ? kPairPanelBytes : kF32PanelBytes);
  t.key_panels = ceil_div(args.tokens, kPanelRows);
  t.key_head_bytes = t.key_panels * t.panel_bytes;
  t.value_panels = ceil_div(args.head_dim, kPanelRows);
  t.value_bytes = args.tokens * kPanelRows * static_cast<int64_t>(sizeof(float));
  return t;
}

// Rows [first, first + rows) of one head of q or k as a panel.
template <typename T>
void pack_rows(const Tiling<T>& t, const T* matrix, int64_t head, int64_t first, int64_t rows,
               std::byte* panel) {
  UnpackArgs args{};
  args.row_bytes = t.args.stride * static_cast<int64_t>(sizeof(T));
  args.codes =
      reinterpret_cast<const std::byte*>(matrix + head * t.args.head_dim) + first * args.row_bytes;
  args.rows = rows;
  args.count = t.args.head_dim;
  args.panel = panel;
  t.unpack(args);
}

// V of keys [first, first + keys) of one head: [value_panels][tokens][16] float, columns padded
// with zeros.
template <typename T>
void pack_values(const Tiling<T>& t, int64_t head, int64_t first, int64_t keys, std::byte* panels) {
  const int64_t head_dim = t.args.head_dim;
  for (int64_t panel = 0; panel < t.value_panels; ++panel) {
    const int64_t column = panel * kPanelRows;
    const int64_t columns = std::min(kPanelRows, head_dim - column);
    const T* from = t.args.v + first * t.args.stride + head * head_dim + column;
    float* to = reinterpret_cast<float*>(panels + panel * t.value_bytes) + first * kPanelRows;
    for (int64_t key = 0; key < keys; ++key) {
      for (int64_t i = 0; i < columns; ++i) {
        to[i] = widen(from[i]);
      }
      std::fill(to + columns, to + kPanelRows, 0.0f);
      from += t.args.stride;
      to += kPanelRows;
    }
  }
}

// One block of 16 keys of one head.
template <typename T>
void pack_keys(const Tiling<T>& t, int64_t head, int64_t panel, std::byte* packed_head) {
  const int64_t first = panel * kPanelRows;
  const int64_t keys = std::min(kPanelRows, t.args.tokens - first);
  pack_rows(t, t.args.k, head, first, keys, packed_head + panel * t.panel_bytes);
  pack_values(t, head, first, keys, packed_head + t.key_head_bytes);
}

// s of keys [first, first + keys) for the tile's queries, unscaled.
template <typename T>
void score_chunk(const Tiling<T>& t, const std::byte* packed_head, int64_t first, int64_t keys,
                 const TileScratch& scratch) {
  MultiplyArgs args{};
  args.x_input_stride = kPanelRows;
  args.w = scratch.queries;
  args.w_panel_bytes = t.panel_bytes;
  args.panels = kTilePanels;
  args.inputs = t.args.head_dim;
  args.acc_stride = kTileQueries;
  args.is_first = true;
  for (int64_t key = first; key < first + keys; key += kPanelRows) {
    args.x = packed_head + key / kPanelRows * t.panel_bytes;
    args.rows = std::min(kPanelRows, first + keys - key);
    args.acc = scratch.s + key * kTileQueries;
    t.multiply(args);
  }
}

// sums += p v over keys [first, first + keys).
template <typename T>
void add_values(const Tiling<T>& t, const std::byte* packed_head, int64_t first, int64_t keys,
                const TileScratch& scratch) {
  MultiplyArgs args{};
  args.x_input_stride = kTileQueries;
  args.w = packed_head + t.key_head_bytes + first * kF32PanelBytes;
  args.w_panel_bytes = t.value_bytes;
  args.panels = t.value_panels;
  args.inputs = keys;
  args.acc_stride = t.sum_stride();
  args.is_first = first == 0;
  args.rows = kPanelRows;
  for (int64_t query = 0; query < kTileQueries; query += kPanelRows) {
    args.x = scratch.p + query;
    args.acc = scratch.sums + query * t.sum_stride();
    t.kernels.multiply_ascending(args);
  }
}

template <typename T>
void store_tile(const Tiling<T>& t, int64_t head, int64_t first, int64_t queries,
                const TileScratch& scratch) {
  for (int64_t query = 0; query < queries; ++query) {
    const float* sums = scratch.sums + query * t.sum_stride();
    const float den = scratch.den[query];
    T* o = t.args.o + (first + query) * t.args.o_stride + head * t.args.head_dim;
    for (int64_t i = 0; i < t.args.head_dim; ++i) {
      assign_rounded(o[i], sums[i] / den);
    }
  }
}

template <typename T>
void run_tile(const Tiling<T>& t, int64_t head, int64_t first, int64_t queries,
              const std::byte* packed_head, const TileScratch& scratch) {
  for (int64_t panel = 0; panel < kTilePanels; ++panel) {
    // Beyond the last query the panel repeats it; those lanes are not stored.
    const int64_t at = std::min(panel * kPanelRows, queries - 1);
    pack_rows(t, t.args.q, head, first + at, std::min(kPanelRows, queries - at),
              scratch.queries + panel * t.panel_bytes);
  }
  std::fill(scratch.largest, scratch.largest + kTileQueries,
            -std::numeric_limits<float>::infinity());
  std::fill(scratch.den, scratch.den + kTileQueries, 0.0f);
  SoftmaxArgs softmax{};
  softmax.lanes = kTileQueries;
  softmax.scale = t.args.scale;
  softmax.largest = scratch.largest;
  softmax.sum = scratch.den;
  softmax.p = scratch.p;
  for (int64_t key = 0; key < t.args.tokens; key += kChunkKeys) {
    softmax.keys = std::min(kChunkKeys, t.args.tokens - key);
    softmax.s = scratch.s + key * kTileQueries;
    score_chunk(t, packed_head, key, softmax.keys, scratch);
    t.kernels.scale_and_max(softmax);
  }
  for (int64_t key = 0; key < t.args.tokens; key += kChunkKeys) {
    softmax.keys = std::min(kChunkKeys, t.args.tokens - key);
    softmax.s = scratch.s + key * kTileQueries;
    t.kernels.exp_and_sum(softmax);
    add_values(t, packed_head, key, softmax.keys, scratch);
  }
  store_tile(t, head, first, queries, scratch);
}

}  // namespace

template <typename T>
void attend_tiled(ExecContext& ctx, const VisionAttentionArgs<T>& args, const TileKernels& kernels,
                  bool may_use_dot) {
  const Arena::Scope scope(ctx.scratch);
  const Tiling<T> t = make_tiling(ctx, args, kernels, may_use_dot);
  const int64_t threads = ctx.threads.threads();
  const int64_t tiles = ceil_div(args.last_query - args.first_query, kTileQueries);
  // As few heads at a time as give every thread eight tiles: their packed keys and values are what
  // the caches must hold.
  const int64_t wave = std::clamp(ceil_div(8 * threads, tiles), int64_t{1}, args.heads);
  std::byte* packed = ctx.scratch.allocate<std::byte>(wave * t.head_bytes());
  TileScratch* scratch = ctx.scratch.allocate<TileScratch>(threads);
  for (int64_t thread = 0; thread < threads; ++thread) {
    scratch[thread] = {ctx.scratch.allocate<std::byte>(kTilePanels * t.panel_bytes),
                       ctx.scratch.allocate<float>(args.tokens * kTileQueries),
                       ctx.scratch.allocate<float>(kChunkKeys * kTileQueries),
                       ctx.scratch.allocate<float>(kTileQueries * t.sum_stride()),
                       ctx.scratch.allocate<float>(kTileQueries),
                       ctx.scratch.allocate<float>(kTileQueries)};
  }
  for (int64_t head = 0; head < args.heads; head += wave) {
    const int64_t heads = std::min(wave, args.heads - head);
    ctx.threads.parallel_for(heads * t.key_panels, [&](int64_t item, int) {
      const int64_t h = item / t.key_panels;
      pack_keys(t, head + h, item % t.key_panels, packed + h * t.head_bytes());
    });
    ctx.threads.parallel_for(heads * tiles, [&](int64_t item, int thread) {
      const int64_t h = item / tiles;
      const int64_t first = args.first_query + item % tiles * kTileQueries;
      run_tile(t, head + h, first, std::min(kTileQueries, args.last_query - first),
               packed + h * t.head_bytes(), scratch[thread]);
    });
  }
}

template void attend_tiled(ExecContext&, const VisionAttentionArgs<bf16>&, const TileKernels&,
                           bool);
template void attend_tiled(ExecContext&, const VisionAttentionArgs<float>&, const TileKernels&,
                           bool);

}  // namespace tessera::kernels
