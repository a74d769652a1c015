#include "trace/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trace/test_files.h"

namespace tessera::trace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Metrics compare_floats(const std::vector<float>& reference, const std::vector<float>& ours) {
  const Shape shape{static_cast<int64_t>(ours.size())};
  return compare(view_of(reference.data(), shape), view_of(ours.data(), shape));
}

TEST(Compare, EqualTensors) {
  const Metrics m = compare_floats({1, -kInf, kNan, -0.0f}, {1, -kInf, kNan, 0});
  EXPECT_EQ(m.elements, 4);
  EXPECT_EQ(m.changed, 0);
  EXPECT_EQ(m.broken, 0);
  EXPECT_EQ(m.nan_ours, 1);
  EXPECT_EQ(m.nan_reference, 1);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.relative_l2, 0);
  EXPECT_EQ(m.reference_peak, 1);
  EXPECT_EQ(m.first.index, -1);
  EXPECT_TRUE(is_within(m, Limit::equal()));
}

TEST(Compare, NormsAndPositions) {
  // Difference (0, 0, 3, -4): norm 5; reference norm 10.
  const Metrics m = compare_floats({0, 6, 8, 0}, {0, 6, 11, -4});
  EXPECT_EQ(m.changed, 2);
  EXPECT_EQ(m.changed_share(), 0.5);
  EXPECT_EQ(m.max_abs, 4);
  EXPECT_EQ(m.relative_l2, 0.5);
  EXPECT_EQ(m.reference_peak, 8);
  EXPECT_EQ(m.first.index, 2);
  EXPECT_EQ(m.first.reference, 8);
  EXPECT_EQ(m.first.ours, 11);
  EXPECT_EQ(m.worst.index, 3);
  EXPECT_EQ(m.worst.ours, -4);
  EXPECT_TRUE(is_within(m, {.relative_l2 = 0.5, .changed_share = 0.5, .max_abs = 4}));
  EXPECT_FALSE(is_within(m, {.relative_l2 = 0.49}));
  EXPECT_FALSE(is_within(m, {.changed_share = 0.49}));
  EXPECT_FALSE(is_within(m, {.max_abs = 3.9}));
}

TEST(Compare, BrokenElementsAreOverEveryLimit) {
  for (const auto& [reference, ours] : std::vector<std::pair<float, float>>{
           {1.0f, kNan}, {kNan, 1.0f}, {-kInf, 1.0f}, {1.0f, kInf}, {kInf, -kInf}}) {
    const Metrics m = compare_floats({2, reference}, {2, ours});
    EXPECT_EQ(m.broken, 1) << reference << ' ' << ours;
    EXPECT_EQ(m.changed, 1);
    EXPECT_EQ(m.max_abs, kInf);
    EXPECT_EQ(m.relative_l2, kInf);
    EXPECT_EQ(m.worst.index, 1);
    EXPECT_FALSE(is_within(m, Limit{}));
  }
}

TEST(Compare, ZeroReferenceAndEmptyTensors) {
  EXPECT_EQ(compare_floats({0, 0}, {0, 1e-30f}).relative_l2, kInf);
  EXPECT_EQ(compare_floats({0, 0}, {0, 0}).relative_l2, 0);
  const Metrics m = compare_floats({}, {});
  EXPECT_EQ(m.elements, 0);
  EXPECT_EQ(m.changed_share(), 0);
  EXPECT_TRUE(is_within(m, Limit::equal()));
}

TEST(Compare, TypesMayDiffer) {
  const Tensor narrow = tensor_of<bf16>({2}, {to_bf16(1.5f), to_bf16(-2)});
  const Tensor wide = tensor_of<float>({2}, {1.5f, -2});
  EXPECT_EQ(compare(narrow.view(), wide.view()).changed, 0);
  const Tensor bytes = tensor_of<uint8_t>({2}, {0, 255});
  const Tensor pixels = tensor_of<float>({2}, {0, 254});
  EXPECT_EQ(compare(bytes.view(), pixels.view()).max_abs, 1);
  const Tensor masks = tensor_of<int64_t>({2}, {0, 255});
  EXPECT_EQ(compare(bytes.view(), masks.view()).changed, 0);
}

TEST(Compare, IntegersAreExactBeyondDoubles) {
  constexpr int64_t kBig = int64_t{1} << 60;
  const Tensor a = tensor_of<int64_t>({3}, {kBig, -1, INT64_MIN});
  const Tensor b = tensor_of<int64_t>({3}, {kBig + 1, -1, INT64_MAX});
  const Metrics m = compare(a.view(), b.view());
  EXPECT_EQ(m.changed, 2);
  EXPECT_EQ(m.first.index, 0);
  EXPECT_EQ(m.worst.index, 2);
  EXPECT_EQ(m.max_abs, 0x1p64);
}

TEST(Compare, ManyBlocks) {
  std::vector<float> a(10'000, 1.0f);
  std::vector<float> b = a;
  b[1023] = 2;
  b[1024] = 3;
  b[9999] = 4;
  const Metrics m = compare_floats(a, b);
  EXPECT_EQ(m.elements, 10'000);
  EXPECT_EQ(m.changed, 3);
  EXPECT_EQ(m.first.index, 1023);
  EXPECT_EQ(m.worst.index, 9999);
  EXPECT_DOUBLE_EQ(m.relative_l2, std::sqrt(14.0) / 100);
}

TEST(Compare, ShapesMustBeEqual) {
  const Tensor a = tensor_of<float>({2, 1}, {1, 2});
  const Tensor b = tensor_of<float>({1, 2}, {1, 2});
  const std::string message = error_of([&] { compare(a.view(), b.view()); });
  EXPECT_NE(message.find("[1,2] with reference shape [2,1]"), std::string::npos) << message;
}

TEST(Compare, StepsOfTheBf16Grid) {
  EXPECT_EQ(bf16_steps(1, 1), 0);
  EXPECT_EQ(bf16_steps(1, 1 + 0x1p-7f), 1);
  EXPECT_EQ(bf16_steps(1, 1 - 0x1p-8f), 1);  // steps below 1 are half as wide
  EXPECT_EQ(bf16_steps(2, 1), 128);
  EXPECT_EQ(bf16_steps(-0.0f, 0), 0);
  EXPECT_EQ(bf16_steps(-0x1p-133f, 0x1p-133f), 2);  // the two smallest subnormal numbers
  EXPECT_EQ(bf16_steps(1, -1), 2 * 0x3f80);
  EXPECT_EQ(bf16_step_at(1), 0x1p-7);
  EXPECT_EQ(bf16_step_at(-37), 0.25);
  EXPECT_EQ(bf16_step_at(0x1p-130), 0x1p-133);
  for (const float x : {1.0f, 1.9921875f, 3.0f, -100.0f, 1e-20f}) {
    const float next = to_float({static_cast<uint16_t>(to_bf16(x).bits + 1)});
    EXPECT_EQ(std::fabs(double{next} - double{round_bf16(x)}), bf16_step_at(x)) << x;
  }
  EXPECT_EQ(compare_floats({1, 4}, {1 + 0x1p-7f, 4 + 3 * 0x1p-5f}).max_bf16_steps, 3);
}

TEST(Compare, KindsOfTaps) {
  EXPECT_EQ(tap_kind("ids"), TapKind::exact);
  EXPECT_EQ(tap_kind("c0.engram.ids"), TapKind::exact);
  EXPECT_EQ(tap_kind("image0.pixels"), TapKind::exact);
  EXPECT_EQ(tap_kind("c2.layers.4.ffn.gate.topk"), TapKind::choice);
  EXPECT_EQ(tap_kind("c2.layers.5.attn.indexer.candidates"), TapKind::choice);
  EXPECT_EQ(tap_kind("c2.dspark.tokens"), TapKind::choice);
  EXPECT_EQ(tap_kind("c2.layers.4.ffn.gate.weights"), TapKind::value);
  EXPECT_EQ(tap_kind("c0.embed"), TapKind::value);
}

class ExcerptTest : public testing::Test {
 protected:
  // A tap of 5 rows of 2, kept rows 0 and 3, groups of 2 rows.
  Excerpt excerpt() const {
    return make_excerpt(R"({"shape": [5, 2], "rows": [0, 3]})", 2, rows_.view(), sums_.view(),
                        abs_sums_.view(), "t", "a.safetensors");
  }
  std::vector<float> tap_ = {1, 2, 3, -4, 5, 6, 7, 8, -9, 10};
  Tensor rows_ = tensor_of<float>({2, 2}, {1, 2, 7, 8});
  Tensor sums_ = tensor_of<double>({3}, {2, 26, 1});
  Tensor abs_sums_ = tensor_of<double>({3}, {10, 26, 19});
};

TEST_F(ExcerptTest, EqualTap) {
  const ExcerptMetrics m = compare_excerpt(excerpt(), view_of(tap_.data(), Shape{5, 2}));
  EXPECT_EQ(m.rows.elements, 4);
  EXPECT_EQ(m.rows.changed, 0);
  EXPECT_EQ(m.group_sum_error, 0);
  EXPECT_EQ(m.group_abs_sum_error, 0);
}

TEST_F(ExcerptTest, DifferencesInRowsAndInBetween) {
  tap_[7] = 9;   // row 3, kept
  tap_[3] = -3;  // row 1, only in the sums of group 0
  const ExcerptMetrics m = compare_excerpt(excerpt(), view_of(tap_.data(), Shape{5, 2}));
  EXPECT_EQ(m.rows.changed, 1);
  EXPECT_EQ(m.rows.first.index, 7);
  EXPECT_EQ(m.rows.first.reference, 8);
  EXPECT_DOUBLE_EQ(m.group_sum_error, 0.1);      // 1 of 10
  EXPECT_DOUBLE_EQ(m.group_abs_sum_error, 0.1);  // 1 of 10
}

TEST_F(ExcerptTest, AnElementThatIsNotANumber) {
  tap_[9] = kNan;
  const ExcerptMetrics m = compare_excerpt(excerpt(), view_of(tap_.data(), Shape{5, 2}));
  EXPECT_EQ(m.rows.changed, 0);
  EXPECT_EQ(m.group_sum_error, kInf);
  EXPECT_EQ(m.group_abs_sum_error, kInf);
}

TEST_F(ExcerptTest, ShapesMustBeEqual) {
  EXPECT_THROW(compare_excerpt(excerpt(), view_of(tap_.data(), Shape{2, 5})), Error);
}

TEST_F(ExcerptTest, DescriptionsThatDoNotFit) {
  const auto message = [&](std::string_view description, int64_t group_rows) {
    return error_of([&] {
      make_excerpt(description, group_rows, rows_.view(), sums_.view(), abs_sums_.view(), "t",
                   "a.safetensors");
    });
  };
  EXPECT_EQ(message(R"({"shape": [5, 2], "rows": [0, 3]})", 2), "");
  for (const std::string_view bad :
       {"", "[]", "7", R"({"shape": [5, 2]})", R"({"shape": [], "rows": []})",
        R"({"shape": [5, -2], "rows": [0, 3]})", R"({"shape": [5, 2.0], "rows": [0, 3]})",
        R"({"shape": [5, 2], "rows": [0, 5]})", R"({"shape": [5, 2], "rows": [0, -1]})",
        R"({"shape": [5, 2], "rows": [0, 1, 2]})", R"({"shape": [5, 3], "rows": [0, 3]})",
        R"({"shape": [7, 2], "rows": [0, 3]})", R"({"shape": [0, 2], "rows": [0, 3]})",
        R"({"shape": [1, 1, 1, 1, 1, 5, 2], "rows": [0, 3]})",
        R"({"shape": [4294967296, 4294967296], "rows": [0, 3]})"}) {
    const std::string found = message(bad, 2);
    EXPECT_EQ(found.find("a.safetensors: "), 0u) << bad << ": " << found;
    EXPECT_EQ(found.find('\n'), std::string::npos) << found;
  }
  for (const int64_t bad : {int64_t{0}, int64_t{-2}, int64_t{1}, int64_t{5}, INT64_MAX}) {
    EXPECT_NE(message(R"({"shape": [5, 2], "rows": [0, 3]})", bad), "") << bad;
  }
}

}  // namespace
}  // namespace tessera::trace
