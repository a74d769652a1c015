// The streaming parser with text cut anywhere: one answer, no more held back than may still matter,
// calls whose names and values are any text.
#include <gtest/gtest.h>

#include <random>

#include "base/text.h"
#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/completion_run.h"
#include "tests/support/json_lines.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;
using Kind = AnswerDelta::Kind;
using Start = CompletionOptions::Start;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  size_t below(size_t count) { return engine_() % count; }
  bool one_in(size_t count) { return below(count) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937 engine_;
};

std::vector<std::string> random_pieces(const std::string& text, Random& random) {
  std::vector<std::string> pieces;
  const size_t longest = 1 + random.below(40);
  size_t left = 0;  // code points of the piece
  for (const std::string& code_point : code_points(text)) {
    if (left == 0) {
      pieces.emplace_back();
      left = 1 + random.below(longest);
    }
    pieces.back() += code_point;
    --left;
  }
  return pieces;
}

void expect_whole_deltas(const StreamRun& stream) {
  for (const Deltas& deltas : stream.pushes) {
    for (size_t i = 0; i < deltas.size(); ++i) {
      EXPECT_TRUE(is_valid_utf8(deltas[i].text));
      EXPECT_TRUE(!deltas[i].text.empty() || deltas[i].kind == Kind::call_name);
      if (i > 0 && deltas[i].kind != Kind::call_name) {  // texts of one kind are one delta
        EXPECT_TRUE(deltas[i].kind != deltas[i - 1].kind || deltas[i].call != deltas[i - 1].call);
      }
    }
  }
}

void expect_same(const CompletionOptions& options, const std::vector<std::string>& pieces,
                 const StreamRun& whole) {
  const StreamRun cut = run(options, pieces);
  expect_whole_deltas(cut);
  EXPECT_EQ(shown(answer_of(cut)), shown(answer_of(whole)));
  EXPECT_EQ(cut.stop_string, whole.stop_string);
  EXPECT_EQ(cut.calls, whole.calls);
  EXPECT_EQ(cut.is_finished.back(), whole.is_finished.back());
}

TEST(CompletionCuts, DoNotChangeTheRecordedAnswers) {
  Random random(1);
  for (const Json& row : test::read_json_lines(test::golden_path("text/parse_recipe.jsonl"))) {
    SCOPED_TRACE(test::text_of(row, "id"));
    const CompletionOptions options = options_of(row);
    const std::string text = test::text_of(row, "text");
    const StreamRun whole = run(options, {text});
    const std::vector<std::string> single = code_points(text);
    expect_same(options, single, whole);
    std::string begin;
    for (const std::string& code_point : single) {
      begin += code_point;
      expect_same(options, {begin, text.substr(begin.size())}, whole);
    }
    for (int i = 0; i < 20; ++i) {
      expect_same(options, random_pieces(text, random), whole);
    }
  }
}

std::string random_text(Random& random) {
  static const std::vector<std::string> parts_of_text = {"\n",
                                                         "\n",
                                                         "\n\n",
                                                         "<",
                                                         "</",
                                                         "<｜",
                                                         "<｜DSML｜",
                                                         "</｜DSML｜",
                                                         "｜DSML｜",
                                                         "</think>",
                                                         "<think>",
                                                         "</th",
                                                         "ink>",
                                                         "a",
                                                         "b",
                                                         " ",
                                                         "é",
                                                         "🙂",
                                                         "\\",
                                                         "\t",
                                                         "\x01",
                                                         "STOP",
                                                         "ST",
                                                         "OP",
                                                         " calls>",
                                                         "</｜DSML｜ calls>",
                                                         "</｜DSML｜tool_calls>",
                                                         "\n\n<｜DSML｜ calls>\n",
                                                         "<｜DSML｜ invoke name=\"f\">\n",
                                                         "</｜DSML｜ invoke>\n",
                                                         "<｜DSML｜ parameter name=\"k\" string=\"",
                                                         "true\">",
                                                         "false\">",
                                                         "</｜DSML｜ parameter>\n",
                                                         "invoke name=\"",
                                                         "parameter name=",
                                                         "\"",
                                                         "\" string=\"",
                                                         "\" st",
                                                         "{",
                                                         "[",
                                                         "```",
                                                         "```json\n",
                                                         "\n```",
                                                         "`"};
  std::string text;
  for (size_t parts = random.below(30); parts > 0; --parts) {
    text += random.of(parts_of_text);
  }
  return text;
}

CompletionOptions random_options(Random& random) {
  static const std::vector<Start> starts = {Start::reasoning, Start::answer,
                                            Start::continued_reasoning, Start::continued_answer,
                                            Start::calls};
  static const std::vector<std::string> stops = {
      "STOP", "\n\n", "\n<", "ST", "TO", "DSML", "<", "`", "é", "a\nb", "OP\n\n<｜DSML｜ ca"};
  CompletionOptions options;
  options.start = random.of(starts);
  options.parses_calls = !random.one_in(5);
  options.is_json = random.one_in(4);
  while (options.stop.size() < 4 && random.one_in(2)) {
    options.stop.push_back(random.of(stops));
  }
  return options;
}

TEST(CompletionCuts, DoNotChangeTheAnswerOfAnyText) {
  Random random(2);
  for (int i = 0; i < 20000; ++i) {
    SCOPED_TRACE(i);
    const CompletionOptions options = random_options(random);
    const std::string text = random_text(random);
    const StreamRun whole = run(options, {text});
    expect_whole_deltas(whole);
    expect_same(options, code_points(text), whole);
    expect_same(options, random_pieces(text, random), whole);
  }
}

bool begins(std::string_view whole, std::string_view text) {
  return text.size() < whole.size() && whole.starts_with(text);
}

// May `held` still become a tag or a stop string, or end a name?
bool may_matter(Kind kind, std::string held, const CompletionOptions& options) {
  if (kind == Kind::call_arguments) {
    return begins("</｜DSML｜", held) || held == "\"" || held == "\": ";
  }
  if (kind == Kind::content) {
    if (options.is_json && (held == " " || begins("\n```", held))) {
      return true;
    }
    for (const std::string& stop : options.stop) {
      if (begins(stop, held)) {
        return true;
      }
    }
    if (begins("</think>", held)) {
      return true;
    }
  }
  held.erase(0, std::min(held.find_first_not_of('\n'), held.size()));
  return (options.parses_calls && begins("<｜DSML｜", held)) ||
         (kind == Kind::reasoning && begins("</think>", held));
}

TEST(CompletionCuts, HoldBackOnlyWhatMayStillMatter) {
  Random random(3);
  int64_t held_back = 0;
  for (int i = 0; i < 1500; ++i) {
    const CompletionOptions options = random_options(random);
    std::vector<std::string> pieces;
    for (const std::string& code_point : code_points(random_text(random))) {
      pieces.push_back(code_point);
      const StreamRun stream = run(options, pieces);
      const Deltas& held = stream.pushes.back();
      if (!stream.stop_string.empty()) {
        break;
      }
      ASSERT_LE(held.size(), 1U);
      if (!held.empty()) {
        ASSERT_TRUE(may_matter(held[0].kind, held[0].text, options))
            << tessera::quoted(held[0].text);
        ++held_back;
      }
    }
  }
  EXPECT_GT(held_back, 1000);
}

// A block of calls, and what it says.
struct WrittenCalls {
  std::string text;
  std::vector<AnsweredCall> calls;
};

WrittenCalls random_calls(Random& random) {
  static const std::vector<std::string> parts_of_text = {
      "a",          "b ",   "é",         "🙂", "\"",      "\\",      "\n",        "\t",
      "\x01",       "\x7f", "<",         "</",   "<｜DSML", "</｜DSM", "/｜DSML｜", "</think>",
      "\" string=", "\" ",  "string=\"", "{",    "}",       ", ",      "\u2028",    "true\">"};
  const auto text = [&](size_t most) {
    std::string made;
    for (size_t parts = random.below(most); parts > 0; --parts) {
      made += random.of(parts_of_text);
    }
    // Nothing that holds this can be written.
    return made.find("</｜DSML｜") == std::string::npos ? made : std::string("v");
  };
  WrittenCalls written{"\n\n<｜DSML｜ calls>\n", {}};
  for (size_t calls = random.below(4); calls > 0; --calls) {
    const std::string name = random.one_in(2) ? "f" : "get_weather";
    written.text += "<｜DSML｜ invoke name=\"ns::" + name + "\">\n";
    Json arguments = Json::object();
    for (size_t i = random.below(4); i > 0; --i) {
      std::string key = std::to_string(i) + text(6);
      if ((key + '"').find("\" string=\"") != std::string::npos) {
        key = "key" + std::to_string(i);  // would end there
      }
      const std::string value = text(12);
      written.text += "<｜DSML｜ parameter name=\"" + key + "\" string=\"true\">" + value +
                      "</｜DSML｜ parameter>\n";
      arguments.set(key, Json::string(value));
    }
    written.text += "</｜DSML｜ invoke>\n";
    written.calls.push_back({name, "ns", io::dump_python(arguments)});
  }
  written.text += "</｜DSML｜ calls>";
  return written;
}

TEST(CompletionCuts, CallsOfStringsAreTheirJson) {
  Random random(4);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    const WrittenCalls written = random_calls(random);
    SCOPED_TRACE(written.text);
    Answer expected;
    expected.content = "x";
    expected.tool_calls = written.calls;
    const StreamRun stream = run({}, random_pieces("x" + written.text, random));
    ASSERT_EQ(shown(answer_of(stream)), shown(expected));
    EXPECT_TRUE(stream.is_finished.back());
    EXPECT_EQ(stream.calls, static_cast<int64_t>(written.calls.size()));
    for (const AnsweredCall& call : written.calls) {
      EXPECT_EQ(io::dump_python(io::parse_json(call.arguments, "arguments")), call.arguments);
    }
    EXPECT_EQ(shown(parse_completion("x" + written.text, false)), shown(expected));
    ++read;
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace tessera::deepseek_v41
