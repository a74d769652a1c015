#include <gtest/gtest.h>

#include <vector>

#include "ops/vision_attention/vision_attention.h"

namespace tessera {
namespace {

TEST(vision_attention_threads, three_threads_equal_one) {
  constexpr int64_t kTokens = 90, kHeads = 2, kHeadDim = 16, kWidth = kHeads * kHeadDim;
  std::vector<bf16> qkv(kTokens * 3 * kWidth);
  for (size_t i = 0; i < qkv.size(); ++i) {
    qkv[i] = to_bf16(static_cast<float>(i * 37 % 101) * 0.02f - 1.0f);
  }
  const auto run = [&](int thread_count) {
    ThreadPool threads(thread_count);
    Arena scratch;
    ExecContext ctx{threads, scratch, active_isa(), {}};
    std::vector<bf16> o(kTokens * kWidth);
    vision_attention(ctx, VisionAttentionArgs<bf16>{.q = qkv.data(),
                                                    .k = qkv.data() + kWidth,
                                                    .v = qkv.data() + 2 * kWidth,
                                                    .stride = 3 * kWidth,
                                                    .o = o.data(),
                                                    .o_stride = kWidth,
                                                    .tokens = kTokens,
                                                    .heads = kHeads,
                                                    .head_dim = kHeadDim,
                                                    .scale = 0.25f,
                                                    .first_query = 0,
                                                    .last_query = kTokens});
    return o;
  };
  const std::vector<bf16> expected = run(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(run(3), expected);
  }
}

}  // namespace
}  // namespace tessera
