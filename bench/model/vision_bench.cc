#include "model/vision_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "image/patchify.h"
#include "models/deepseek_v41/synthetic.h"
#include "models/deepseek_v41/vision.h"
#include "ops/activation/activation.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace tessera::bench {
namespace {

using deepseek_v41::Config;
using deepseek_v41::Network;
using Clock = std::chrono::steady_clock;

constexpr float kEps = 1e-6f;  // of the tower's norms

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The test picture of tests/golden/v41-tower-full.
image::Image test_canvas(int64_t width, int64_t height) {
  image::Image canvas({width, height});
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* pixel = canvas.row(y);
    for (int64_t x = 0; x < width; ++x, pixel += image::Image::kChannels) {
      pixel[0] = static_cast<uint8_t>(7 * x + 3 * y);
      pixel[1] = static_cast<uint8_t>(x * x + 5 * y);
      pixel[2] = static_cast<uint8_t>(x * y + 11);
    }
  }
  return canvas;
}

// Tiles of one run of the tower, in order: `row_tiles` of the embedding; per block as many of
// norm + qkv, attention, output, mlp; one of the last norm; the aligner's.
struct TileOrder {
  int64_t row_tiles;
  int64_t layers;

  // Fewer aligner tiles than phases of all blocks: 1 + 4 * layers divides the rest away.
  TileOrder(int64_t tiles, int64_t blocks)
      : row_tiles((tiles - 1) / (1 + 4 * blocks)), layers(blocks) {}

  bool is_attention(int64_t tile) const {
    const int64_t in_blocks = tile - row_tiles;
    return in_blocks >= 0 && in_blocks < 4 * layers * row_tiles && in_blocks / row_tiles % 4 == 1;
  }
};

struct Times {
  double total = 0;      // seconds
  double attention = 0;  // in it
  int64_t row_tiles = 0;
};

Times run_tower(ExecContext& ctx, const Network& network, const Tensor& patches, int64_t grid_rows,
                int64_t grid_columns, deepseek_v41::VisionBuffers<bf16>& buffers) {
  deepseek_v41::VisionJob<bf16> job(network, patches.as<bf16>(), grid_rows, grid_columns, "image0",
                                    buffers);
  const TileOrder order(job.tiles_total(), network.config.vision.layers);
  Times times;
  times.row_tiles = order.row_tiles;
  for (bool is_done = false; !is_done;) {
    const bool is_attention = order.is_attention(job.tiles_done());
    const Clock::time_point start = Clock::now();
    is_done = job.advance(ctx, 1);
    const double seconds = seconds_since(start);
    times.total += seconds;
    times.attention += is_attention ? seconds : 0;
  }
  return times;
}

// Seconds of norms, rotary, activations and sums of the whole tower: those of one block, done again
// in tiles as the tower does them, times the blocks, plus what comes once.
double rest_seconds(ExecContext& ctx, const Network& network, int64_t row_tiles,
                    deepseek_v41::VisionBuffers<bf16>& b, int64_t merged_rows) {
  const deepseek_v41::VisionConfig& v = network.config.vision;
  const deepseek_v41::VisionWeights& w = network.weights.vision;
  const int64_t rows = b.patches;
  const int64_t tile = ceil_div(rows, row_tiles);
  Tensor u(DType::bf16, {tile, 2 * v.ffn_dim});
  Tensor a(DType::bf16, {tile, v.ffn_dim});
  Tensor hidden(DType::bf16, {merged_rows, network.config.hidden});
  for (Tensor* values : {&u, &hidden}) {
    deepseek_v41::synthesize(ctx, "values", 1,
                             {values->as<bf16>(), static_cast<size_t>(values->shape().elements())});
  }
  bf16* x = b.stream.as<bf16>();
  bf16* normed = b.normed.as<bf16>();
  const Clock::time_point start = Clock::now();
  for (int64_t first = 0; first < rows; first += tile) {
    const int64_t count = std::min(tile, rows - first);
    rms_norm(ctx, x + first * v.hidden, w.blocks[0].norm1, count, v.hidden, kEps,
             normed + first * v.hidden);
    rotate_halves(ctx, b.qkv.as<bf16>() + first * 3 * v.hidden, count, 3 * v.hidden, 2 * v.heads,
                  v.head_dim(), b.cos.as<float>() + first * v.head_dim() / 2,
                  b.sin.as<float>() + first * v.head_dim() / 2);
    rms_norm(ctx, x + first * v.hidden, w.blocks[0].norm2, count, v.hidden, kEps,
             normed + first * v.hidden);
    silu_mul(ctx, u.as<bf16>(), count, v.ffn_dim, a.as<bf16>());
  }
  for (int half = 0; half < 2; ++half) {
    add(ctx, x, b.branch.as<bf16>(), rows * v.hidden);
  }
  const double block = seconds_since(start);
  const Clock::time_point once = Clock::now();
  rms_norm(ctx, x, w.norm, rows, v.hidden, kEps, normed);
  gelu(ctx, hidden.as<bf16>(), merged_rows * network.config.hidden, hidden.as<bf16>());
  return static_cast<double>(v.layers) * block + seconds_since(once);
}

Result make_result(const MachineLimits& limits, std::string name, std::string shape, double seconds,
                   double flops, double limit_seconds) {
  Result result;
  result.name = std::move(name);
  result.shape = std::move(shape);
  result.threads = limits.threads;
  result.isa = limits.isa;
  result.ms = seconds * 1e3;
  result.best_ms = result.ms;
  result.gflops = flops / seconds * 1e-9;
  result.limit_share = limit_seconds / seconds;
  return result;
}

void check_options(const Config& config, const VisionBenchOptions& options) {
  const deepseek_v41::VisionConfig& v = config.vision;
  if (v.layers == 0) {
    throw Error(ErrorCode::bad_request, "the configuration has no vision tower");
  }
  const int64_t rows = options.height / v.patch_px;
  const int64_t columns = options.width / v.patch_px;
  const int64_t span = ceil_div(rows, v.downsample) * (ceil_div(columns, v.downsample) + 1) + 2;
  if (rows < 1 || columns < 1 || options.height % v.patch_px != 0 ||
      options.width % v.patch_px != 0 || span > v.max_tokens) {
    throw Error(ErrorCode::bad_request,
                str_cat("canvas ", options.width, "x", options.height, ": expected multiples of ",
                        v.patch_px, " pixels and a span of at most ", v.max_tokens,
                        " tokens, found a span of ", span, "; try 1008x1008"));
  }
}

}  // namespace

VisionWork vision_work(const Config& config, int64_t grid_rows, int64_t grid_columns) {
  const deepseek_v41::VisionConfig& v = config.vision;
  const double n = static_cast<double>(grid_rows * grid_columns);
  const double merged =
      static_cast<double>(ceil_div(grid_rows, v.downsample) * ceil_div(grid_columns, v.downsample));
  const double d = static_cast<double>(v.hidden);
  const double out = static_cast<double>(config.hidden);
  const double cell = d * static_cast<double>(v.downsample * v.downsample);
  const double layers = static_cast<double>(v.layers);
  VisionWork work;
  work.patch_embed = 2 * n * static_cast<double>(v.patch_width()) * d;
  work.block_linear = layers * 2 * n * d * (4 * d + 3 * static_cast<double>(v.ffn_dim));
  work.attention = layers * 4 * n * n * d;
  work.aligner = 2 * merged * (cell * out + out * out);
  return work;
}

ModelReport bench_vision(const Config& config, const VisionBenchOptions& options) {
  check_options(config, options);
  const int64_t grid_rows = options.height / config.vision.patch_px;
  const int64_t grid_columns = options.width / config.vision.patch_px;
  const int64_t rows = grid_rows * grid_columns;
  const int64_t merged_rows = ceil_div(grid_rows, config.vision.downsample) *
                              ceil_div(grid_columns, config.vision.downsample);
  ThreadPool threads(options.threads);
  Arena scratch;
  ExecContext ctx{threads, scratch, options.isa, {}};
  const deepseek_v41::SyntheticWeights weights(ctx, deepseek_v41::tower_only(config));
  const Network network = deepseek_v41::synthetic_network(config, weights);
  const Tensor patches = image::patchify(test_canvas(options.width, options.height),
                                         config.vision.patch_px, image::signed_unit_table());
  deepseek_v41::VisionBuffers<bf16> buffers(config, rows);
  Times best;
  for (int run = 0; run < std::max(options.runs, 1); ++run) {
    const Times times = run_tower(ctx, network, patches, grid_rows, grid_columns, buffers);
    best = run == 0 || times.total < best.total ? times : best;
  }
  ModelReport report;
  report.peak_bytes = peak_memory_bytes();
  report.weight_bytes = weights.bytes();
  rest_seconds(ctx, network, best.row_tiles, buffers, merged_rows);  // page faults
  const double rest = rest_seconds(ctx, network, best.row_tiles, buffers, merged_rows);
  const double linear = best.total - best.attention - rest;

  LimitOptions limit_options;
  limit_options.dram_bytes = 64 << 20;  // that figure is not used
  report.limits = measure_limits(options.isa, options.threads, limit_options);
  const double product_peak = report.limits.peak_gflops() * 1e9;
  const double fma_peak = report.limits.fma_gflops * 1e9;
  const VisionWork work = vision_work(config, grid_rows, grid_columns);
  const double linear_limit = work.linear() / product_peak;
  const double attention_limit = work.attention / 2 / product_peak + work.attention / 2 / fma_peak;
  const std::string shape = str_cat(options.width, "x", options.height);
  report.results = {
      make_result(report.limits, "vision", shape, best.total, work.total(),
                  linear_limit + attention_limit),
      make_result(report.limits, "vision.linear", shape, linear, work.linear(), linear_limit),
      make_result(report.limits, "vision.attention", shape, best.attention, work.attention,
                  attention_limit),
      make_result(report.limits, "vision.rest", shape, rest, 0, 0)};
  report.notes = {
      str_cat(rows, " patches, ", merged_rows, " tokens, ", std::round(work.total() * 1e-9),
              " GFLOP; limit of the mix: linear and Q K^T at ",
              std::round(report.limits.peak_gflops()), " GFLOP/s (products of bf16), P V at ",
              std::round(report.limits.fma_gflops), " GFLOP/s (fp32 FMA)"),
      "vision.rest: norms, rotary, activations and sums, those of one block measured again and "
      "multiplied; vision.linear: what remains",
      str_cat("weights ", report.weight_bytes / 1000000, " MB, peak memory ",
              report.peak_bytes / 1000000, " MB")};
  return report;
}

}  // namespace tessera::bench
