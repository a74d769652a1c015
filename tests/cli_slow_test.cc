// The whole evaluation set of the demo model.
#include <gtest/gtest.h>

#include "tests/support/demo.h"

namespace tessera::test {
namespace {

using io::Json;

TEST(Eval, WholeSetPasses) {
  const Json got = json_of({"eval", kEval});
  EXPECT_EQ(integer_of(got, "items"), 60);
  EXPECT_EQ(integer_of(got, "prompt_ids_equal"), 60);
  EXPECT_EQ(integer_of(got, "matched_above_margin"), 57);
  EXPECT_GE(integer_of(got, "matched_recorded"), 57);
  EXPECT_GE(integer_of(got, "correct"), 53);
  EXPECT_EQ(integer_of(*got.find("by_lang")->find("zh"), "items"), 30);
  EXPECT_EQ(integer_of(*got.find("by_type")->find("two"), "correct"), 6);
  ASSERT_EQ(got.find("results")->items().size(), 60U);
}

}  // namespace
}  // namespace tessera::test
