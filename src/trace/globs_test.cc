#include "trace/globs.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::trace {
namespace {

TEST(Globs, MatchWholeNames) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "c0.layers.3.ffn.gate.topk"));
  EXPECT_TRUE(glob_matches("*.topk", "c0.layers.3.ffn.gate.topk"));
  EXPECT_TRUE(glob_matches("c?.layers.*.attn", "c0.layers.12.attn"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaabxxb"));
  EXPECT_TRUE(glob_matches("**", "x"));
  EXPECT_FALSE(glob_matches("*.topk", "c0.layers.3.ffn.gate.topk.more"));
  EXPECT_FALSE(glob_matches("c?.layers", "c10.layers"));
  EXPECT_FALSE(glob_matches("", "x"));
  EXPECT_FALSE(glob_matches("[ab]", "a"));  // brackets mean themselves
}

TEST(Globs, ManyStarsStayFast) {
  const std::string name(2000, 'a');
  std::string pattern;
  for (int i = 0; i < 200; ++i) {
    pattern += "*a";
  }
  EXPECT_FALSE(glob_matches(pattern + "*b", name));
  EXPECT_TRUE(glob_matches(pattern + "*", name));
}

TEST(Globs, AlternativesAreSeparatedByCommas) {
  const Globs globs("*.gate.topk,,ids,");
  EXPECT_TRUE(globs.matches("c0.layers.0.ffn.gate.topk"));
  EXPECT_TRUE(globs.matches("ids"));
  EXPECT_FALSE(globs.matches("types"));
  EXPECT_FALSE(globs.matches(""));
}

TEST(Globs, NothingIsAnError) {
  EXPECT_THROW(Globs(""), Error);
  EXPECT_THROW(Globs(",,"), Error);
}

}  // namespace
}  // namespace tessera::trace
