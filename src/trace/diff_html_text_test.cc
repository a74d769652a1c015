#include "trace/diff_html_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/text.h"
#include "io/json.h"

namespace tessera::trace {
namespace {

TEST(DiffHtmlTextTest, CleanTextIsUtf8WithoutDisguise) {
  EXPECT_EQ(clean_text("c0.layers.3 \xC3\xA9\xE5\x9B\xBE\xF0\x9F\xA5\x95", 100),
            "c0.layers.3 \xC3\xA9\xE5\x9B\xBE\xF0\x9F\xA5\x95");
  EXPECT_EQ(clean_text("a\tb\n\x7f\xC2\x85", 100), "a\\u{9}b\\u{a}\\u{7f}\\u{85}");
  for (const char* turn :
       {"\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x80\xAE", "\xE2\x81\xA6",
        "\xE2\x81\xA9", "\xD8\x9C", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\xF3\xA0\x81\x81"}) {
    EXPECT_TRUE(clean_text(turn, 100).starts_with("\\u{")) << clean_text(turn, 100);
  }
  // Overlong forms, surrogates, lone bytes, a sequence that ends too early.
  EXPECT_EQ(clean_text("\xC0\xBC", 100), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(clean_text("\xED\xA0\x80", 100), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(clean_text("x\xE2\x80", 100), "x\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(DiffHtmlTextTest, LongTextKeepsItsBeginningAndItsEnd) {
  EXPECT_EQ(clean_text("0123456789abcdef", 16), "0123456789abcdef");
  EXPECT_EQ(clean_text("0123456789abcdefg", 15),
            "01234567\xE2\x80\xA6"
            "defg");
  // Whole sequences only, whatever the limit.
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += "\xE5\x9B\xBE\xC3\xA9\xF0\x9F\xA5\x95";
  }
  for (size_t most = 0; most <= text.size() + 1; ++most) {
    const std::string cut = clean_text(text, most);
    EXPECT_TRUE(is_valid_utf8(cut)) << most;
    EXPECT_LE(cut.size(), std::max<size_t>(most, 3)) << most;
  }
}

TEST(DiffHtmlTextTest, EscapesForMarkupAndScript) {
  EXPECT_EQ(html_text("<a href=\"x\" id='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
  const std::string json = "{\"</script>\":\"<!-- & \xE2\x80\xA8\xE2\x80\xA9\"}";
  const std::string safe = script_json(json);
  EXPECT_EQ(safe, "{\"\\u003c/script\\u003e\":\"\\u003c!-- \\u0026 \\u2028\\u2029\"}");
  EXPECT_EQ(io::dump_compact(io::parse_json(safe, "x")),
            io::dump_compact(io::parse_json(json, "x")));
}

TEST(DiffHtmlTextTest, PolicyHashes) {
  EXPECT_EQ(policy_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  // The example of the CSP specification (level 3, hashes).
  EXPECT_EQ(policy_hash("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
}

}  // namespace
}  // namespace tessera::trace
