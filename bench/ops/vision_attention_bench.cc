#include <cmath>
#include <random>

#include "base/str_cat.h"
#include "ops/op_bench.h"
#include "ops/vision_attention/vision_attention.h"

namespace tessera::bench {

Result bench_vision_attention(const Shape& shape, const BenchOptions& options,
                              const MachineLimits& limits) {
  const int64_t tokens = shape.sizes[0], heads = shape.sizes[1], head_dim = shape.sizes[2];
  const int64_t width = heads * head_dim;
  std::vector<bf16> qkv(static_cast<size_t>(tokens * 3 * width));
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (bf16& v : qkv) {
    v = to_bf16(normal(random));
  }
  std::vector<bf16> o(static_cast<size_t>(tokens * width));
  ThreadPool threads(options.threads);
  Arena scratch;
  ExecContext ctx{threads, scratch, options.isa, {}};
  const VisionAttentionArgs<bf16> args{.q = qkv.data(),
                                       .k = qkv.data() + width,
                                       .v = qkv.data() + 2 * width,
                                       .stride = 3 * width,
                                       .o = o.data(),
                                       .o_stride = width,
                                       .tokens = tokens,
                                       .heads = heads,
                                       .head_dim = head_dim,
                                       .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                                       .first_query = 0,
                                       .last_query = tokens};
  Result result;
  result.name = shape.name;
  result.shape = str_cat("bf16 ", tokens, "x", heads, "x", head_dim);
  // Two products of tokens^2 x head_dim per head; exp is not counted.
  const double flops = 4.0 * static_cast<double>(tokens * tokens) * static_cast<double>(width);
  time_runs(
      options, limits, flops, 0.0, [&] { vision_attention(ctx, args); }, result);
  return result;
}

}  // namespace tessera::bench
