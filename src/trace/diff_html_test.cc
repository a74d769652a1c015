#include "trace/diff_html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "trace/diff_html_page_test.h"
#include "trace/diff_html_text.h"

namespace tessera::trace {
namespace {

std::string between(std::string_view text, std::string_view open, std::string_view close) {
  const size_t begin = text.find(open);
  EXPECT_NE(begin, std::string_view::npos) << open;
  if (begin == std::string_view::npos) {
    return "";
  }
  const size_t start = begin + open.size();
  return std::string(text.substr(start, text.find(close, start) - start));
}

int64_t count_of(std::string_view text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

std::string data_of(std::string_view page) { return between(page, "id=\"data\">", "</script>"); }

std::string page_of(const SamplePage& sample) {
  return diff_html(sample.report, *sample.reference, *sample.ours, sample.stages);
}

TEST(DiffHtmlTest, PageTellsVerdictAndCauseInItsMarkup) {
  SamplePage sample;
  sample.report.line = "first divergence: <image0> & \"row 3\"";
  const std::string page = page_of(sample);
  EXPECT_NE(page.find("<h1>first divergence: &lt;image0&gt; &amp; &quot;row 3&quot;</h1>"),
            std::string::npos);
  EXPECT_NE(page.find("<p id=\"cause\">inputs equal</p>"), std::string::npos);
  EXPECT_NE(page.find("<p class=\"badge\">diverged</p>"), std::string::npos);
  EXPECT_EQ(between(page, "<title>", "</title>").substr(0, 10), "diverged: ");
  // A line that ends with the cause does not repeat it.
  sample.report.line = "first divergence; inputs equal";
  EXPECT_NE(page_of(sample).find("<p id=\"cause\"></p>"), std::string::npos);
}

TEST(DiffHtmlTest, PolicyAllowsOwnScriptAndStyleOnly) {
  const std::string page = page_of(SamplePage());
  const std::string policy = between(page, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_TRUE(policy.starts_with("default-src 'none'; ")) << policy;
  const std::string script = between(page, "<script type=\"module\">", "</script>");
  const std::string style = between(page, "<style>", "</style>");
  EXPECT_GT(script.size(), 10'000u);
  EXPECT_NE(policy.find(str_cat("script-src '", policy_hash(script), "'")), std::string::npos);
  EXPECT_NE(policy.find(str_cat("style-src '", policy_hash(style), "'")), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                           "eval(", "new Function", "fetch(", "XMLHttpRequest", "import "}) {
    EXPECT_EQ(script.find(word), std::string::npos) << word;
  }
  // The one address in it is a name space.
  EXPECT_EQ(count_of(page, "://"), 1);
  EXPECT_EQ(count_of(page, "'http://www.w3.org/2000/svg'"), 1);
}

TEST(DiffHtmlTest, FilesAreEmbeddedAsTheyAre) {
  const std::string page = page_of(SamplePage());
  for (const char* name : {"style.css", "taps.css", "base.js", "charts.js", "diff.js"}) {
    std::ifstream in(str_cat(TESSERA_SOURCE_DIR, "/web/diff/", name), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    EXPECT_GT(content.size(), 1000u) << name;
    EXPECT_NE(page.find(content), std::string::npos) << name;
  }
}

TEST(DiffHtmlTest, NamesCannotLeaveTheData) {
  const std::string page = page_of(SamplePage());
  EXPECT_EQ(count_of(page, "<script"), 2);
  EXPECT_EQ(count_of(page, "</script"), 2);
  EXPECT_EQ(count_of(page, "<img"), 0);
  EXPECT_EQ(count_of(page, "\xE2\x80\xAE"), 0);  // turns text around
  const std::string data = data_of(page);
  for (const char* character : {"<", ">", "&", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    EXPECT_EQ(data.find(character), std::string::npos) << character;
  }
  const io::Json json = io::parse_json(data, "page");
  EXPECT_EQ(json.find("taps")->items().back().items()[1].text(),
            "</script><img src=x onerror=\"document.title='pwned'\">'&amp;<!--\\u{202e}cod.exe");
  EXPECT_EQ(json.find("model")->text(), "sample <b>model</b>");
}

TEST(DiffHtmlTest, BadBytesAndLongNamesAreTamed) {
  SamplePage sample;
  sample.add(std::string(10'000, 'a') + ".tail", TapStatus::missing);
  sample.add(
      "bad\xFF\xC0\xAF"
      "bytes",
      TapStatus::missing);
  sample.report.warnings = {std::string("nul\0 and \x1b[31m", 14), "\xE2\x80\xA8line"};
  sample.report.first = &sample.report.taps[4];
  const std::string page = page_of(sample);
  EXPECT_TRUE(is_valid_utf8(page));
  const io::Json json = io::parse_json(data_of(page), "page");
  const std::vector<io::Json>& taps = json.find("taps")->items();
  const std::string& name = taps[11].items()[1].text();
  EXPECT_LE(name.size(), 200u);
  EXPECT_TRUE(name.starts_with("aaaa"));
  EXPECT_TRUE(name.ends_with("aaa.tail")) << name;
  EXPECT_EQ(taps[12].items()[1].text(),
            "bad\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "bytes");
  EXPECT_EQ(json.find("warnings")->items()[0].text(), "nul\\u{0} and \\u{1b}[31m");
  EXPECT_EQ(json.find("warnings")->items()[1].text(), "\\u{2028}line");
}

TEST(DiffHtmlTest, DataSayWhatTheReportSays) {
  const SamplePage sample;
  const io::Json json = io::parse_json(data_of(page_of(sample)), "page");
  EXPECT_EQ(json.find("first")->as_int64(), 4);
  EXPECT_EQ(json.find("total")->as_int64(), 11);
  EXPECT_EQ(io::dump_compact(*json.find("counts")),
            R"({"equal":5,"within":1,"tie":1,"over":2,"broken":1,"extra":1})");
  EXPECT_EQ(io::dump_compact(*json.find("calls")), "[[0,40]]");
  const std::vector<io::Json>& taps = json.find("taps")->items();
  ASSERT_EQ(taps.size(), 11u);
  EXPECT_EQ(
      io::dump_compact(taps[4]),
      R"([4,"image0.aligner","over",0,"[40,16]",null,"F32",null,[0.001,0.008],)"
      R"x([640,7,0,0,0,0,0.0125,0.25,3,1,0,0,1],[3],[3,7,0.25,0.5],"image 0, cell (0,3)",""])x");
  const io::Json& stage = json.find("stages")->items()[0];
  EXPECT_EQ(stage.find("rows")->text(), "cells");
  EXPECT_EQ(stage.find("hints")->items()[0].text(), "padding by <whole> lines");
  EXPECT_EQ(taps[10].items()[3].as_int64(), -1);  // without a stage
  EXPECT_EQ(page_of(sample), page_of(sample));
}

const io::Json* panel_of(const io::Json& json, int64_t tap) {
  for (const io::Json& panel : json.find("panels")->items()) {
    if (panel.find("tap")->as_int64() == tap) {
      return &panel;
    }
  }
  return nullptr;
}

TEST(DiffHtmlTest, PanelsAreOfWhatDiffersTheVerdictsFirst) {
  const io::Json json = io::parse_json(data_of(page_of(SamplePage())), "page");
  std::vector<int64_t> order;
  for (const io::Json& panel : json.find("panels")->items()) {
    order.push_back(*panel.find("tap")->as_int64());
  }
  EXPECT_EQ(order, (std::vector<int64_t>{4, 5, 9, 6, 7}));
  const io::Json* aligner = panel_of(json, 4);
  EXPECT_EQ(io::dump_compact(*aligner->find("grid")),
            R"({"rows":3,"columns":5,"height":1,"width":0.9,"picture":"image0"})");
  EXPECT_EQ(io::dump_compact(*aligner->find("values")), "[0,0,0,0.25,0,0.0156,0,0,0,0,0,0,0,0,0]");
  // Row 3 is off by 1/4 of the rms, row 5 by 1/64: bins from 10^-1 and from 10^-2 on.
  EXPECT_EQ(io::dump_compact(*aligner->find("histogram")),
            R"({"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,16,0,16,0,0,0,0,0,0,0],)"
            R"("equal":208,"broken":0})");
  EXPECT_EQ(panel_of(json, 9)->find("values")->items()[3].text(), "inf");
  EXPECT_EQ(panel_of(json, 9)->find("histogram")->find("broken")->as_int64(), 32);
  const io::Json* picks = panel_of(json, 6);
  EXPECT_EQ(picks->find("measure")->text(), "share");
  EXPECT_EQ(picks->find("histogram"), nullptr);
  EXPECT_EQ(picks->find("values")->items()[4].as_double(), 0.5);
  EXPECT_EQ(picks->find("values")->items()[5].as_double(), 0);
  EXPECT_EQ(picks->find("start")->as_int64(), 0);
  EXPECT_EQ(json.find("labels")->find("c0")->items()[7].text(), "token 107");
  const io::Json* picture = json.find("pictures")->find("image0");
  EXPECT_EQ(picture->find("width")->as_int64(), 36);
  EXPECT_EQ(picture->find("rgb")->text().size(), 24u * 36 * 4);
}

TEST(DiffHtmlTest, TokenTextNamesRows) {
  const SamplePage sample;
  DiffOptions options;
  options.token_text = [](int64_t id) { return str_cat("<", id, ">"); };
  const std::string page =
      diff_html(sample.report, *sample.reference, *sample.ours, sample.stages, options);
  const io::Json json = io::parse_json(data_of(page), "page");
  EXPECT_EQ(json.find("labels")->find("c0")->items()[7].text(), "'<107>'");
}

TEST(DiffHtmlTest, TwentyThousandTapsFit) {
  SamplePage sample;
  for (int64_t i = 0; i < 20'000; ++i) {
    sample.add(str_cat("c", 1 + i / 300, ".layers.", i % 300 / 30, ".attn.tap", i % 30),
               i % 3 == 0   ? TapStatus::over
               : i % 3 == 1 ? TapStatus::within
                            : TapStatus::equal,
               {"c0.layers.0", "c0.layers.1"});
    TapDiff& tap = sample.report.taps.back();
    tap.metrics = {123456,     12345, 1234,          0, 1.23456e-5, 1.23456e-3, 1.23456e-4,
                   1.23456e-3, 37,    0.99987654321, 0, 12.3456,    0.123456};
    tap.first = DiffElement{37, 123, 1.23456789, 1.23456788};
    tap.row_label = "image 0, cell (4,7)";
  }
  sample.report.first = &sample.report.taps[4];
  const std::string page = page_of(sample);
  EXPECT_LT(page.size(), static_cast<size_t>(kMostPageBytes));
  const io::Json json = io::parse_json(data_of(page), "page");
  EXPECT_EQ(json.find("taps")->items().size(), 20'011u);
  EXPECT_EQ(json.find("panels")->items().size(), 5u);
}

TEST(DiffHtmlTest, TheLeastInterestingTapsGoFirst) {
  SamplePage sample;
  for (int64_t i = 0; i < 30'000; ++i) {
    sample.add(str_cat("c1.", std::string(300, '<'), i),
               i % 2 == 0 ? TapStatus::equal : TapStatus::over);
    sample.report.taps.back().note = std::string(300, '&');
  }
  sample.report.warnings.assign(1000, std::string(1000, '<'));
  sample.report.first = &sample.report.taps[4];
  const std::string page = page_of(sample);
  EXPECT_LT(page.size(), static_cast<size_t>(kMostPageBytes));
  EXPECT_GT(page.size(), static_cast<size_t>(kMostPageBytes) / 2);
  const io::Json json = io::parse_json(data_of(page), "page");
  EXPECT_EQ(json.find("total")->as_int64(), 30'011);
  EXPECT_EQ(json.find("counts")->find("over")->as_int64(), 15'002);
  const std::vector<io::Json>& taps = json.find("taps")->items();
  ASSERT_LT(taps.size(), 15'000u);
  int64_t last = -1;
  for (const io::Json& tap : taps) {
    EXPECT_TRUE(tap.items()[2].text() == "over" || tap.items()[2].text() == "broken");
    EXPECT_GT(*tap.items()[0].as_int64(), last);
    last = *tap.items()[0].as_int64();
  }
}

TEST(DiffHtmlTest, AtMost64Panels) {
  SamplePage sample;
  for (int64_t i = 0; i < 100; ++i) {
    sample.add("c0.embed", TapStatus::over);
  }
  sample.report.first = &sample.report.taps[4];
  const io::Json json = io::parse_json(data_of(page_of(sample)), "page");
  ASSERT_EQ(json.find("panels")->items().size(), 64u);
  EXPECT_EQ(json.find("panels")->items().back().find("tap")->as_int64(), 71);
  EXPECT_EQ(panel_of(json, 7), nullptr);  // within: after everything that is over
}

TEST(DiffHtmlTest, AReportWithoutDifferencesAndWithoutTaps) {
  SamplePage sample;
  sample.report.taps.clear();
  sample.report.first = nullptr;
  sample.report.verdict = DiffVerdict::equal;
  sample.report.cause.clear();
  const std::string page = page_of(sample);
  EXPECT_NE(page.find("<p class=\"badge\">equal</p>"), std::string::npos);
  const io::Json json = io::parse_json(data_of(page), "page");
  EXPECT_EQ(json.find("first")->as_int64(), -1);
  EXPECT_TRUE(json.find("taps")->items().empty());
}

}  // namespace
}  // namespace tessera::trace
