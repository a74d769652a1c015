// Single rules of the streaming parser: stop strings, broken tags, states of the parser, and that
// its time is linear in the text.
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/completion_run.h"

namespace tessera::deepseek_v41 {
namespace {

using Start = CompletionOptions::Start;

CompletionOptions with_stop(std::vector<std::string> stop, Start start = Start::answer) {
  CompletionOptions options;
  options.stop = std::move(stop);
  options.start = start;
  return options;
}

struct StopCase {
  std::vector<std::string> stop;
  std::string text;
  std::string answer;
  std::string found;
};

void expect_stop(const StopCase& c, Start start = Start::answer) {
  const CompletionOptions options = with_stop(c.stop, start);
  for (const auto& pieces : {std::vector<std::string>{c.text}, code_points(c.text)}) {
    const StreamRun stream = run(options, pieces);
    EXPECT_EQ(shown(answer_of(stream)), c.answer) << c.text;
    EXPECT_EQ(stream.stop_string, c.found) << c.text;
    EXPECT_EQ(stream.is_finished.back(), !c.found.empty()) << c.text;
  }
}

TEST(CompletionStops, TheOneThatBeginsFirst) {
  const StopCase kCases[] = {
      {{"STOP"}, "before STOP after", "R[] C[before ]", "STOP"},
      {{"STOP"}, "ST STO STOP", "R[] C[ST STO ]", "STOP"},
      {{"STOP"}, "STO", "R[] C[STO]", ""},
      {{"aab"}, "aaaab", "R[] C[aa]", "aab"},
      {{"ab", "abc"}, "xxabcyy", "R[] C[xx]", "ab"},
      {{"abc", "ab"}, "xxabcyy", "R[] C[xx]", "ab"},
      {{"abcd", "bc"}, "abcd", "R[] C[]", "abcd"},
      {{"abcd", "bc"}, "abce", "R[] C[a]", "bc"},
      {{"abcd", "bc"}, "abc", "R[] C[a]", "bc"},
      {{"bcd", "abcd", "cd"}, "xabcd", "R[] C[x]", "abcd"},
      {{"abcdef", "bcde", "c"}, "abcdex", "R[] C[a]", "bcde"},
      {{"。"}, "第一句。第二句。", "R[] C[第一句]", "。"},
  };
  for (const StopCase& c : kCases) {
    expect_stop(c);
  }
}

// The newlines before a tag belong to it.
TEST(CompletionStops, BesideTags) {
  const std::string call = "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"></｜DSML｜ STOP";
  const StopCase kCases[] = {
      // Begins with the tag or before it.
      {{"\n\n"}, "a\n\n" + call, "R[] C[a]", "\n\n"},
      {{"\n"}, "a\n\n" + call, "R[] C[a]", "\n"},
      {{"<"}, "a" + call, "R[] C[a]", "<"},
      {{"a\n"}, "a\n" + call, "R[] C[]", "a\n"},
      {{"</think>"}, "a</think>b", "R[] C[a]", "</think>"},
      // Begins inside a tag.
      {{"\n<"}, "a\n\n" + call, "R[] C[a] ::f({})", ""},
      {{"<"}, "a\n" + call, "R[] C[a] ::f({})", ""},
      {{"DSML", "ML｜", "｜"}, "a" + call, "R[] C[a] ::f({})", ""},
      {{"think", ">"}, "a</think>b", "R[] C[ab]", ""},
      // The same, but there is no tag.
      {{"\n<"}, "a\n\n<b", "R[] C[a\n]", "\n<"},
      {{"\n<"}, "a\n\n<", "R[] C[a\n]", "\n<"},
      {{"DSML"}, "a\n<｜DSML-", "R[] C[a\n<｜]", "DSML"},
      {{"DS", "｜D"}, "a<｜DSMx", "R[] C[a<]", "｜D"},
      // A tag is no content: nothing is found across it.
      {{"a\n\n<｜DSML｜ calls>"}, "a\n\n" + call, "R[] C[a] ::f({})", ""},
      {{"ab"}, "a</think>b", "R[] C[ab]", ""},
      {{"abc\n<｜DSML｜ x", "bc"}, "abc\n" + call, "R[] C[a]", "bc"},
      // Newlines that are dropped are no content.
      {{"\n\n"}, "\n\n\na\nb", "R[] C[a\nb]", ""},
  };
  for (const StopCase& c : kCases) {
    expect_stop(c);
  }
}

TEST(CompletionStops, InContentOnly) {
  const std::string calls =
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"STOP\">\n"
      "<｜DSML｜ parameter name=\"STOP\" string=\"true\">STOP</｜DSML｜ parameter>"
      "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
  const StreamRun stream = run(with_stop({"STOP"}, Start::reasoning), {"STOP</think>x" + calls});
  EXPECT_EQ(shown(answer_of(stream)), "R[STOP] C[x] ::STOP({\"STOP\": \"STOP\"})");
  EXPECT_EQ(stream.stop_string, "");
  EXPECT_TRUE(stream.is_finished.back());
  expect_stop({{"STOP"}, "STOP</think>xSTOP", "R[STOP] C[x]", "STOP"}, Start::reasoning);

  CompletionOptions json = with_stop({"STOP", "```"});
  json.is_json = true;
  EXPECT_EQ(shown(parse_stream(json, "STOP {1STOP}")), "R[] C[ {1]");
  EXPECT_EQ(shown(parse_stream(json, "x ```json\n{1}\n``` STOP")), "R[] C[ {1}\n]");
  EXPECT_EQ(run(json, {"{1}\n```"}).stop_string, "```");

  CompletionOptions plain = with_stop({"calls>"});
  plain.parses_calls = false;
  EXPECT_EQ(shown(parse_stream(plain, "x" + calls)), "R[] C[x<｜DSML｜ ]");
}

TEST(CompletionStops, AreRefusedIfEmptyOrNoText) {
  for (const std::string& stop :
       {std::string(), std::string("\xff"), std::string("\x80"), std::string((1 << 20) + 1, 'a')}) {
    try {
      CompletionParser parser(with_stop({"a", stop}));
      FAIL() << stop.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
    }
  }
}

std::string calls_text(const std::string& parameters) {
  return "<｜DSML｜ invoke name=\"f\">\n" + parameters + "\n</｜DSML｜ invoke>\n";
}

std::string calls_answer(const std::string& text) {
  CompletionOptions options;
  options.start = Start::calls;
  const std::string answer = shown(parse_stream(options, text));
  EXPECT_EQ(shown(answer_of(run(options, code_points(text)))), answer);
  return answer;
}

// deepseek-recipe copies the name as it is up to the first blank.
TEST(CompletionCalls, NamesOfParametersAreEscaped) {
  const auto named = [](const std::string& name) {
    return calls_answer(calls_text("<｜DSML｜ parameter name=\"" + name +
                                   "\" string=\"true\">v</｜DSML｜ parameter>"));
  };
  EXPECT_EQ(named("k\"ey"), R"(R[] C[] ::f({"k\"ey": "v"}))");
  EXPECT_EQ(named("\\"), R"(R[] C[] ::f({"\\": "v"}))");
  EXPECT_EQ(named("\n\x01"), R"(R[] C[] ::f({"\n\u0001": "v"}))");
  EXPECT_EQ(named("my key"), R"(R[] C[] ::f({"my key": "v"}))");
  EXPECT_EQ(named("a\" string"), R"(R[] C[] ::f({"a\" string": "v"}))");
  EXPECT_EQ(named("<|"), R"(R[] C[] ::f({"<|": "v"}))");
}

// The arguments of a call with a broken parameter are no JSON, and the next call is read.
TEST(CompletionCalls, BrokenParametersLeaveTheCallOpen) {
  const std::string next = calls_text(
      "<｜DSML｜ parameter name=\"q\" string=\"true\">v"
      "</｜DSML｜ parameter>");
  const auto broken = [&](const std::string& tag) {
    return calls_answer(calls_text("<｜DSML｜ parameter " + tag + "v</｜DSML｜ parameter>") + next);
  };
  const std::string rest = R"( ::f({"q": "v"}))";
  EXPECT_EQ(broken("name='p' string=\"true\">"), "R[] C[] ::f({)" + rest);
  EXPECT_EQ(broken("name=\"p\">"), R"(R[] C[] ::f({"p\">v))" + rest);
  EXPECT_EQ(broken("name=\"p\" string=\"maybe\">"), R"(R[] C[] ::f({"p": ))" + rest);
  EXPECT_EQ(broken("name=\"p\" string=\"true\" >"), R"(R[] C[] ::f({"p": ))" + rest);
  EXPECT_EQ(broken("name=\"p\" string=\"xtrue\">"), R"(R[] C[] ::f({"p": ))" + rest);
}

TEST(CompletionCalls, EndInTheMiddle) {
  EXPECT_EQ(calls_answer("<｜DSML｜ invoke name=\"f"), "R[] C[]");
  EXPECT_EQ(calls_answer("<｜DSML｜ invoke name=\"f\""), "R[] C[] ::f()");
  const std::string open = "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=";
  EXPECT_EQ(calls_answer(open), "R[] C[] ::f({)");
  EXPECT_EQ(calls_answer(open + "\"k"), "R[] C[] ::f({\"k)");
  EXPECT_EQ(calls_answer(open + "\"k\""), "R[] C[] ::f({\"k\")");
  EXPECT_EQ(calls_answer(open + "\"k\" "), "R[] C[] ::f({\"k\": )");
  EXPECT_EQ(calls_answer(open + "\"k\" string="), "R[] C[] ::f({\"k\": )");
  EXPECT_EQ(calls_answer(open + "\"k</｜D"), "R[] C[] ::f({\"k</｜D)");
  EXPECT_EQ(calls_answer(open + "\"k\" string=\"true\">v</｜DSML"),
            "R[] C[] ::f({\"k\": \"v</｜DSML)");
}

TEST(CompletionParser, SaysWhenItIsOver) {
  CompletionParser parser(with_stop({"end"}));
  Deltas deltas;
  parser.push("the en", deltas);
  EXPECT_EQ(deltas, (Deltas{{AnswerDelta::Kind::content, "the ", 0}}));
  EXPECT_FALSE(parser.is_finished());
  EXPECT_EQ(parser.stop_string(), "");
  parser.push("d of", deltas);
  EXPECT_TRUE(parser.is_finished());
  EXPECT_EQ(parser.stop_string(), "end");
  parser.push(" it", deltas);
  parser.finish(deltas);
  EXPECT_EQ(deltas.size(), 1U);

  CompletionParser moved = std::move(parser);
  EXPECT_EQ(moved.stop_string(), "end");

  CompletionParser calls({});
  deltas.clear();
  calls.push("\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"ns::f\">", deltas);
  EXPECT_EQ(deltas, (Deltas{{AnswerDelta::Kind::call_name, "ns::f", 0}}));
  EXPECT_EQ(calls.calls(), 1);
  deltas.clear();
  calls.push("</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"g\">\n", deltas);
  EXPECT_EQ(deltas, (Deltas{{AnswerDelta::Kind::call_arguments, "{}", 0},
                            {AnswerDelta::Kind::call_name, "g", 1}}));
  EXPECT_EQ(calls.calls(), 2);
  EXPECT_FALSE(calls.is_finished());
  calls.push("</｜DSML｜ invoke>\n</｜DSML｜ calls>", deltas);
  EXPECT_TRUE(calls.is_finished());
  EXPECT_EQ(calls.stop_string(), "");
}

constexpr size_t kMega = size_t{1} << 20;

std::string repeated(std::string_view unit, size_t bytes = kMega) {
  std::string text;
  while (text.size() < bytes) {
    text += unit;
  }
  return text;
}

// Without keeping the deltas; `is_cut` into single code points.
Answer answer_in_pieces(const CompletionOptions& options, std::string_view text, bool is_cut) {
  CompletionParser parser(options);
  Answer answer;
  Deltas deltas;
  while (!text.empty()) {
    const size_t bytes = is_cut
                             ? static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[0])))
                             : text.size();
    parser.push(text.substr(0, bytes), deltas);
    text.remove_prefix(bytes);
    append(deltas, answer);
    deltas.clear();
  }
  parser.finish(deltas);
  append(deltas, answer);
  return answer;
}

// Quadratic time would be minutes for each of these.
TEST(CompletionTime, IsLinear) {
  const std::string value = "<｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"k\" string=\"";
  struct Case {
    CompletionOptions options;
    std::string begin;  // in front of the repeated text
    std::string unit;
  };
  std::vector<Case> cases;
  for (const char* unit :
       {"\n", "<", "a", "</think", "<｜DSML", "\n\n<｜DSML", "\n<｜DSML｜\n", "é"}) {
    cases.push_back({with_stop({}, Start::continued_reasoning), "", unit});
    cases.push_back({with_stop({"\n\n\n\n\n\nx", "<｜DSMLx"}), "x", unit});
    cases.push_back({with_stop({}, Start::calls), value + "true\">", unit});
    cases.push_back({with_stop({}, Start::calls), value + "false\">", unit});
    cases.push_back({with_stop({}, Start::calls), value.substr(0, value.size() - 10), unit});
  }
  const std::string run_of_a(kMega / 4, 'a');
  const std::string newlines(kMega / 4, '\n');
  cases.push_back({with_stop({run_of_a + "b", run_of_a.substr(1) + "c"}), "", "a"});
  cases.push_back({with_stop({newlines + "b"}), "x", "\n"});
  cases.push_back({with_stop({repeated("ab", kMega / 4) + "b"}), "", "ab"});
  const std::clock_t begin = std::clock();
  for (const Case& c : cases) {
    const std::string text = c.begin + repeated(c.unit);
    const Answer answer = answer_in_pieces(c.options, text, /*is_cut=*/false);
    ASSERT_TRUE(answer_in_pieces(c.options, text, /*is_cut=*/true) == answer) << c.begin << c.unit;
    if (c.options.start != Start::calls && c.unit.find("｜DSML｜") == std::string::npos) {
      ASSERT_TRUE(answer.reasoning + answer.content == text) << c.unit;
    }
  }
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 300);  // of processor time
}

TEST(CompletionTime, OfTheStrictParserIsLinear) {
  const std::string begin = "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n";
  for (const char* unit :
       {"\n\n<｜DSML｜ call", "<｜DSML｜ parameter", "<｜DSML｜ invoke", "</｜DSML｜ parameter>\n",
        "\" string=\"", "\n", "</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"f\">\n"}) {
    try {
      parse_completion(begin + "<｜DSML｜ parameter name=\"" + repeated(unit), false);
      FAIL() << unit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
    }
  }
  std::string calls = begin;
  for (int i = 0; calls.size() < kMega; ++i) {
    calls += "<｜DSML｜ parameter name=\"" + std::to_string(i) +
             "\" string=\"true\">v</｜DSML｜ parameter>\n";
  }
  const Answer answer = parse_completion(calls, false);  // no end tag is looked for again and again
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].arguments.substr(0, 20), R"({"0": "v", "1": "v",)");
}

}  // namespace
}  // namespace tessera::deepseek_v41
