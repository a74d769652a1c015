#include "base/text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Text, AcceptsEveryKindOfUtf8Sequence) {
  EXPECT_EQ(utf8_sequence_bytes("a"), 1U);
  EXPECT_EQ(utf8_sequence_bytes("\xc3\xa9x"), 2U);  // U+00E9
  EXPECT_EQ(utf8_sequence_bytes("图"), 3U);
  EXPECT_EQ(utf8_sequence_bytes("\xf4\x8f\xbf\xbf"), 4U);  // U+10FFFF
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("看图 says \xf0\x9f\x8d\x85"));
}

TEST(Text, RefusesWhatRfc3629Forbids) {
  for (const std::string_view bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe5\x9b", "\xc3", "\xe5x\xbe"}) {
    EXPECT_EQ(utf8_sequence_bytes(bad), 0U) << quoted(bad);
    EXPECT_FALSE(is_valid_utf8(bad)) << quoted(bad);
  }
  EXPECT_EQ(utf8_sequence_bytes(""), 0U);
}

TEST(Text, QuotedIsOneLineOfUtf8) {
  EXPECT_EQ(quoted("layers.0.权重"), "'layers.0.权重'");
  EXPECT_EQ(quoted("a\nb\x1b[0m"), "'a\\x0ab\\x1b[0m'");
  EXPECT_EQ(quoted("\xff\xe5\x9b"), "'\\xff\\xe5\\x9b'");
  EXPECT_EQ(quoted("\xc2\x85|\xe2\x80\xa8"), "'\\xc2\\x85|\\xe2\\x80\\xa8'");
  EXPECT_EQ(quoted(std::string_view("\0", 1)), "'\\x00'");
}

TEST(Text, QuotedCutsBetweenCharacters) {
  EXPECT_EQ(quoted("abcdef", 6), "'abcdef'");
  EXPECT_EQ(quoted("abcdef", 5), "'abcde...'");
  EXPECT_EQ(quoted("图图图", 7), "'图图...'");
}

}  // namespace
}  // namespace tessera
