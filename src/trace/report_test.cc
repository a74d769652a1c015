#include "trace/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "trace/test_files.h"

namespace tessera::trace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    const std::vector<float> values = {1, 2, 2, 4};
    Writer writer(folder_ / "a.safetensors");
    for (const std::string_view name : {"equal", "near", "far", "broken", "shape", "missing"}) {
      writer.add(name, view_of(values.data(), Shape{2, 2}));
    }
    writer.commit();
    reference_ = std::make_unique<TraceFile>(folder_ / "a.safetensors");
    comparer_ = std::make_unique<Comparer>(*reference_, ComparerOptions{.collect_extra = true});
    tap("equal", {1, 2, 2, 4}, {2, 2});
    tap("near", {1, 2, 2, 4.5f}, {2, 2});
    tap("far", {1, 2, 3, 4}, {2, 2});
    tap("broken", {1, kInf, 2, 4}, {2, 2});
    tap("shape", {1, 2, 2, 4}, {4});
    tap("extra", {1}, {1});
  }
  void tap(std::string_view name, std::vector<float> values, const Shape& shape) {
    comparer_->tap(name, mutable_view_of(values.data(), shape));
  }
  Verdict verdict(std::string_view name) const {
    return judge(*comparer_->find(name), limits_.of(name));
  }

  TemporaryFolder folder_;
  std::unique_ptr<TraceFile> reference_;
  std::unique_ptr<Comparer> comparer_;
  Limits limits_{{{Globs("near"), {.max_abs = 0.5}}, {Globs("broken,n*"), {}}}};
};

TEST_F(ReportTest, Verdicts) {
  EXPECT_EQ(verdict("equal"), Verdict::equal);
  EXPECT_EQ(verdict("near"), Verdict::within);
  EXPECT_EQ(verdict("far"), Verdict::over);
  EXPECT_EQ(verdict("broken"), Verdict::broken);
  EXPECT_EQ(verdict("shape"), Verdict::shape);
  EXPECT_FALSE(all_within(*comparer_, limits_));
}

TEST_F(ReportTest, OnlyFailures) {
  // Relative L2 of `far` is 1/5.
  EXPECT_EQ(
      report(*comparer_, limits_),
      "tap     shape  max_abs  rel_l2  changed  verdict\n"
      "far     [2,2]  1        0.2     25%      over, first at 2 (row 1): reference 2, ours 3\n"
      "broken  [2,2]  inf      inf     25%      broken, first at 1 (row 0): reference 2, ours "
      "inf\n"
      "shape   [4]    0        0       0%       shape, reference [2,2]\n"
      "missing: missing\n"
      "extra: extra\n");
}

TEST_F(ReportTest, EverythingButNotTooMuch) {
  const std::string text = report(*comparer_, limits_, {.only_failures = false, .max_lines = 2});
  EXPECT_EQ(text,
            "tap    shape  max_abs  rel_l2  changed  verdict\n"
            "equal  [2,2]  0        0       0%       equal\n"
            "near   [2,2]  0.5      0.1     25%      within\n"
            "... 3 more taps\n"
            "missing: missing\n"
            "extra: extra\n");
}

TEST_F(ReportTest, NothingToTell) {
  Comparer comparer(*reference_, {.globs = "equal"});
  EXPECT_FALSE(all_within(comparer, limits_));  // nothing was compared
  std::vector<float> values = {1, 2, 2, 4};
  comparer.tap("equal", mutable_view_of(values.data(), Shape{2, 2}));
  EXPECT_EQ(report(comparer, limits_), "");
  EXPECT_TRUE(all_within(comparer, limits_));
}

}  // namespace
}  // namespace tessera::trace
