#include "ops/vision_attention/vision_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "ops/vision_attention/tiles.h"

namespace tessera {
namespace {

struct Shape {
  int64_t tokens, heads, head_dim;
  int64_t extra = 0;  // columns behind q | k | v
  int64_t stride() const { return 3 * heads * head_dim + extra; }
};

template <typename T>
T from_float(float x);
template <>
float from_float(float x) {
  return x;
}
template <>
bf16 from_float(float x) {
  return to_bf16(x);
}
float value(float x) { return x; }
float value(bf16 x) { return to_float(x); }

template <typename T>
std::vector<T> random_qkv(const Shape& shape, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<T> qkv(static_cast<size_t>(shape.tokens * shape.stride()));
  for (T& x : qkv) {
    x = from_float<T>(normal(random));
  }
  return qkv;
}

template <typename T>
std::vector<T> attend(IsaLevel isa, const Shape& s, const std::vector<T>& qkv, int64_t first,
                      int64_t last, float scale, int thread_count = 1) {
  ThreadPool threads(thread_count);
  Arena scratch;
  ExecContext ctx{threads, scratch, isa, {}};
  const int64_t width = s.heads * s.head_dim;
  const int64_t o_stride = width + 3;
  std::vector<T> o(static_cast<size_t>(s.tokens * o_stride), from_float<T>(77.0f));
  vision_attention(ctx, VisionAttentionArgs<T>{.q = qkv.data(),
                                               .k = qkv.data() + width,
                                               .v = qkv.data() + 2 * width,
                                               .stride = s.stride(),
                                               .o = o.data(),
                                               .o_stride = o_stride,
                                               .tokens = s.tokens,
                                               .heads = s.heads,
                                               .head_dim = s.head_dim,
                                               .scale = scale,
                                               .first_query = first,
                                               .last_query = last});
  return o;
}

template <typename T>
void expect_levels_agree(const Shape& s, uint32_t seed, float spread) {
  const std::vector<T> qkv = random_qkv<T>(s, seed, spread);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  const std::vector<T> expected = attend(IsaLevel::reference, s, qkv, 0, s.tokens, scale);
  for (const IsaLevel isa : supported_isas()) {
    const std::vector<T> ours = attend(isa, s, qkv, 0, s.tokens, scale);
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(value(ours[i]), value(expected[i]))
          << isa_name(isa) << " tokens " << s.tokens << " heads " << s.heads << " head_dim "
          << s.head_dim << " seed " << seed << " at " << i;
    }
  }
}

TEST(vision_attention, every_level_gives_the_same_bits) {
  uint32_t seed = 0;
  for (const int64_t head_dim : {2, 14, 16, 20, 32, 34, 64, 72}) {
    for (const int64_t tokens : {1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 130}) {
      expect_levels_agree<bf16>({tokens, 2, head_dim, 5}, ++seed, 1.0f);
      expect_levels_agree<float>({tokens, 2, head_dim}, ++seed, 1.0f);
    }
  }
  expect_levels_agree<bf16>({300, 3, 64}, ++seed, 1.0f);
}

// Scores far apart: most p are zero or flushed.
TEST(vision_attention, wide_scores_agree) {
  expect_levels_agree<bf16>({100, 2, 20}, 1, 8.0f);
  expect_levels_agree<float>({100, 2, 32}, 2, 8.0f);
  expect_levels_agree<float>({90, 1, 32}, 3, 1e-3f);
}

// The product q . k by either instruction of the highest level.
TEST(vision_attention, dot_instruction_gives_the_same_bits) {
  if (detected_isa() < IsaLevel::avx512) {
    GTEST_SKIP() << "no vdpbf16ps";
  }
  ThreadPool threads(1);
  Arena scratch;
  ExecContext ctx{threads, scratch, IsaLevel::avx512, {}};
  for (const int64_t head_dim : {2, 20, 64}) {
    const Shape s{77, 2, head_dim};
    const std::vector<bf16> qkv = random_qkv<bf16>(s, 5);
    const int64_t width = 2 * head_dim;
    std::vector<bf16> o(static_cast<size_t>(77 * width)), expected(o.size());
    VisionAttentionArgs<bf16> args{.q = qkv.data(),
                                   .k = qkv.data() + width,
                                   .v = qkv.data() + 2 * width,
                                   .stride = 3 * width,
                                   .o = expected.data(),
                                   .o_stride = width,
                                   .tokens = 77,
                                   .heads = 2,
                                   .head_dim = head_dim,
                                   .scale = 0.3f,
                                   .first_query = 0,
                                   .last_query = 77};
    kernels::attend_reference(ctx, args);
    for (const bool may_use_dot : {false, true}) {
      args.o = o.data();
      kernels::attend_tiled(ctx, args, kernels::kTileKernelsAvx512, may_use_dot);
      ASSERT_EQ(o, expected) << head_dim;
    }
  }
}

TEST(vision_attention, a_query_does_not_depend_on_the_range_or_the_thread_count) {
  const Shape s{150, 3, 32};
  const std::vector<bf16> qkv = random_qkv<bf16>(s, 9);
  const std::vector<bf16> all = attend(active_isa(), s, qkv, 0, s.tokens, 0.2f);
  EXPECT_EQ(attend(active_isa(), s, qkv, 0, s.tokens, 0.2f, 3), all);
  const int64_t row = s.heads * s.head_dim + 3;
  for (const int64_t step : {1, 31, 40, 149}) {
    for (int64_t first = 0; first < s.tokens; first += step) {
      const int64_t last = std::min(first + step, s.tokens);
      const std::vector<bf16> part = attend(active_isa(), s, qkv, first, last, 0.2f, 2);
      for (int64_t i = 0; i < s.tokens * row; ++i) {
        const bool is_computed = i / row >= first && i / row < last && i % row < row - 3;
        ASSERT_EQ(part[static_cast<size_t>(i)],
                  is_computed ? all[static_cast<size_t>(i)] : to_bf16(77.0f));
      }
    }
  }
}

// Equal scores: the mean of the values. Sums of small integers are exact.
TEST(vision_attention, equal_scores_average) {
  const Shape s{64, 2, 16};
  std::vector<float> qkv(static_cast<size_t>(s.tokens * s.stride()), 0.0f);
  for (int64_t t = 0; t < s.tokens; ++t) {
    for (int64_t i = 0; i < 32; ++i) {
      qkv[static_cast<size_t>(t * s.stride() + 64 + i)] = static_cast<float>((t * 3 + i) % 11);
    }
  }
  for (const IsaLevel isa : supported_isas()) {
    const std::vector<float> o = attend(isa, s, qkv, 0, s.tokens, 1.0f);
    for (int64_t i = 0; i < 32; ++i) {
      int64_t sum = 0;
      for (int64_t t = 0; t < s.tokens; ++t) {
        sum += (t * 3 + i) % 11;
      }
      ASSERT_EQ(o[static_cast<size_t>(5 * 35 + i)], static_cast<float>(sum) / 64.0f);
    }
  }
}

// Bounds, all relative to 2^-24 = u. s: (head_dim + 1) u of scale * sum |q k|; p: that, plus exp's
// 2.5 u (vector_math_test) and the subtraction's |s| u; sums of n terms: n u. First order, with a
// tenth on top.
TEST(vision_attention, stays_within_the_bound_of_a_double_oracle) {
  const Shape s{200, 2, 32};
  const std::vector<float> qkv = random_qkv<float>(s, 33);
  const float scale = 0.25f;
  const std::vector<float> o = attend(active_isa(), s, qkv, 0, s.tokens, scale);
  const int64_t width = s.heads * s.head_dim;
  for (int64_t query = 0; query < s.tokens; ++query) {
    const float* q = qkv.data() + query * s.stride() + s.head_dim;  // head 1
    std::vector<double> p;
    double largest = -1e300, score_error = 0;
    for (int64_t j = 0; j < s.tokens; ++j) {
      const float* k = qkv.data() + j * s.stride() + width + s.head_dim;
      double sum = 0, size = 0;
      for (int64_t i = 0; i < s.head_dim; ++i) {
        const double product = static_cast<double>(q[i]) * static_cast<double>(k[i]);
        sum += product;
        size += std::fabs(product);
      }
      p.push_back(sum * static_cast<double>(scale));
      largest = std::max(largest, p.back());
      score_error = std::max(
          score_error, static_cast<double>(s.head_dim + 1) * size * static_cast<double>(scale));
    }
    double den = 0, lowest = largest;
    for (double& x : p) {
      lowest = std::min(lowest, x);
      x = std::exp(x - largest);
      den += x;
    }
    const double p_error = 2 * score_error + 2.5 + (largest - lowest);
    for (int64_t i = 0; i < s.head_dim; ++i) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < s.tokens; ++j) {
        const float v = qkv[static_cast<size_t>(j * s.stride() + 2 * width + s.head_dim + i)];
        sum += p[static_cast<size_t>(j)] * static_cast<double>(v);
        size += p[static_cast<size_t>(j)] * std::fabs(static_cast<double>(v));
      }
      const double terms = static_cast<double>(s.tokens);
      const double bound = 1.1 * 0x1p-24 * 2 * (p_error + terms + 1) * size / den;
      ASSERT_LE(std::fabs(static_cast<double>(
                              o[static_cast<size_t>(query * (width + 3) + s.head_dim + i)]) -
                          sum / den),
                bound);
    }
  }
}

TEST(vision_attention, a_repeated_call_takes_no_new_memory) {
  ThreadPool threads(2);
  Arena scratch;
  ExecContext ctx{threads, scratch, active_isa(), {}};
  const Shape s{100, 2, 32};
  const std::vector<bf16> qkv = random_qkv<bf16>(s, 1);
  std::vector<bf16> o(100 * 64);
  const VisionAttentionArgs<bf16> args{.q = qkv.data(),
                                       .k = qkv.data() + 64,
                                       .v = qkv.data() + 128,
                                       .stride = 192,
                                       .o = o.data(),
                                       .o_stride = 64,
                                       .tokens = 100,
                                       .heads = 2,
                                       .head_dim = 32,
                                       .scale = 0.1f,
                                       .first_query = 0,
                                       .last_query = 100};
  vision_attention(ctx, args);
  const int64_t capacity = scratch.capacity_bytes();
  vision_attention(ctx, args);
  EXPECT_EQ(scratch.capacity_bytes(), capacity);
}

}  // namespace
}  // namespace tessera
