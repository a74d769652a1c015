#include <cmath>
#include <limits>

#include "ops/vector_math.h"
#include "ops/vision_attention/tiles.h"

namespace tessera::kernels {
namespace {

template <typename T>
float dot(const T* q, const T* k, int64_t head_dim) {
  float a = 0;
  for (int64_t i = 0; i < head_dim; i += 2) {
    a = std::fma(widen(q[i + 1]), widen(k[i + 1]), a);
    a = std::fma(widen(q[i]), widen(k[i]), a);
  }
  return a;
}

// One query of one head; s [tokens] is scratch.
template <typename T>
void attend_one(const VisionAttentionArgs<T>& args, int64_t head, int64_t query, float* s) {
  const int64_t column = head * args.head_dim;
  const T* q = args.q + query * args.stride + column;
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < args.tokens; ++j) {
    s[j] = dot(q, args.k + j * args.stride + column, args.head_dim) * args.scale;
    largest = s[j] > largest ? s[j] : largest;
  }
  float den = 0;
  for (int64_t j = 0; j < args.tokens; ++j) {
    s[j] = exp_f32(s[j] - largest);
    den += s[j];
  }
  T* o = args.o + query * args.o_stride + column;
  for (int64_t i = 0; i < args.head_dim; ++i) {
    float a = 0;
    for (int64_t j = 0; j < args.tokens; ++j) {
      a = std::fma(s[j], widen(args.v[j * args.stride + column + i]), a);
    }
    assign_rounded(o[i], a / den);
  }
}

}  // namespace

template <typename T>
void attend_reference(ExecContext& ctx, const VisionAttentionArgs<T>& args) {
  const Arena::Scope scope(ctx.scratch);
  float* scratch = ctx.scratch.allocate<float>(args.tokens * int64_t{ctx.threads.threads()});
  const int64_t queries = args.last_query - args.first_query;
  ctx.threads.parallel_for(args.heads * queries, [&](int64_t item, int thread) {
    attend_one(args, item / queries, args.first_query + item % queries,
               scratch + thread * args.tokens);
  });
}

template void attend_reference(ExecContext&, const VisionAttentionArgs<bf16>&);
template void attend_reference(ExecContext&, const VisionAttentionArgs<float>&);

}  // namespace tessera::kernels
