// Both parsers against recorded answers (tests/golden/text/README.md), and single rules.
#include "models/deepseek_v41/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "models/deepseek_v41/completion_run.h"
#include "tests/support/json_lines.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;
using Start = CompletionOptions::Start;

constexpr std::string_view kEosText = "<｜end▁of▁sentence｜>";

// One call "f" with these parameter tags.
std::string block(const std::string& parameters) {
  return "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + parameters +
         "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}

std::string parameter(const std::string& name, const std::string& type, const std::string& value) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + type + "\">" + value +
         "</｜DSML｜ parameter>";
}

std::string refusal(std::string_view text, bool is_thinking = false) {
  try {
    return "accepted: " + shown(parse_completion(text, is_thinking));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
}

TEST(StrictCompletion, IsTheReferences) {
  int refused = 0;
  for (const Json& row : test::read_json_lines(test::golden_path("text/parse_ref.jsonl"))) {
    SCOPED_TRACE(test::text_of(row, "id"));
    const Json& result = *row.find("result");
    const std::string text = test::text_of(row, "text");
    const bool is_thinking = test::text_of(row, "mode") == "thinking";
    if (result.find("error") != nullptr) {
      const std::string message = refusal(text, is_thinking);
      EXPECT_TRUE(message.starts_with("completion, byte ")) << message;
      EXPECT_NE(message.find(": expected "), std::string::npos) << message;
      EXPECT_NE(message.find(", found "), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      ++refused;
      continue;
    }
    Answer expected;
    expected.reasoning = test::text_of(result, "reasoning_content");
    expected.content = test::text_of(result, "content");
    for (const Json& call : result.find("tool_calls")->items()) {
      const Json& function = *call.find("function");
      expected.tool_calls.push_back({test::text_of(function, "name"),
                                     test::text_of(call, "namespace"),
                                     test::text_of(function, "arguments")});
    }
    EXPECT_EQ(shown(parse_completion(text, is_thinking)), shown(expected));
  }
  EXPECT_EQ(refused, 47);
}

// The places that messages name. Chat specification 14, P5 to P7.
TEST(StrictCompletion, SaysWhereAndWhatWasExpected) {
  EXPECT_EQ(refusal("no end tag<｜end▁of▁sentence｜>", true),
            "completion, byte 37: expected </think> behind the reasoning, found the end of the "
            "text");
  EXPECT_EQ(refusal("ab</think>c<｜end▁of▁sentence｜>"),
            "completion, byte 2: expected no </think> in reasoning and content, found "
            "'</think>c<｜end▁of▁sentence｜>'");
  EXPECT_EQ(refusal("\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"a\">\n"
                    "<｜DSML｜ parameter name=\"p\" string=\"true\">x"),
            "completion, byte 71: expected the parameter tag's ' name=\"NAME\" "
            "string=\"true|false\">', a value and its end tag, found ' name=\"p\" "
            "string=\"true\">x'");
  EXPECT_EQ(refusal("a<｜end▁of▁sentence｜>b"),
            "completion, byte 28: expected nothing behind <｜end▁of▁sentence｜>, found 'b'");
  EXPECT_EQ(refusal("a\xff<｜end▁of▁sentence｜>"),
            "completion: expected text of UTF-8, found other bytes");
  EXPECT_NE(refusal("x" + block(parameter("p", "true", "1") + "\n" + parameter("p", "true", "2")))
                .find("expected a parameter name that the call does not have yet, found 'p\""),
            std::string::npos);
}

// As the reference, which looks for the next tag only where text is left.
TEST(StrictCompletion, ClosesACallThatEndsBehindALine) {
  const std::string text = block(parameter("p", "true", "1"));
  std::vector<std::string> ends;
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    const std::string cut = text.substr(0, bytes);
    if (is_valid_utf8(cut) && refusal(cut).starts_with("accepted: ")) {
      ends.push_back(cut.substr(cut.size() - 6));
    }
  }
  EXPECT_EQ(ends, (std::vector<std::string>{" calls", "=\"f\">\n", "eter>\n", "invoke"}));
}

TEST(StrictCompletion, ReadsExamplesOfTheSpecification) {
  EXPECT_EQ(shown(parse_completion("Simple arithmetic.</think>2 + 2 = 4.<｜end▁of▁sentence｜>",
                                   /*is_thinking=*/true)),
            "R[Simple arithmetic.] C[2 + 2 = 4.]");
  EXPECT_EQ(
      shown(parse_completion("I need data.</think>Checking." +
                                 block(parameter("city", "true", "São \"Paulo\"\nBR") + "\n" +
                                       parameter("days", "false", "3") + "\n" +
                                       parameter("opts", "false", "{\"x\": [1, true, null]}")) +
                                 std::string(kEosText),
                             /*is_thinking=*/true)),
      "R[I need data.] C[Checking.] ::f({\"city\": \"São \\\"Paulo\\\"\\nBR\", \"days\": 3, "
      "\"opts\": {\"x\": [1, true, null]}})");
}

// What a recorded chunk of deepseek-recipe says, without roles and finish reasons.
Deltas recorded_deltas(const Json& chunks) {
  Deltas deltas;
  for (const Json& chunk : chunks.items()) {
    if (chunk.find("reasoning_content") != nullptr) {
      deltas.push_back(
          {AnswerDelta::Kind::reasoning, test::text_of(chunk, "reasoning_content"), 0});
    }
    if (chunk.find("content") != nullptr) {
      deltas.push_back({AnswerDelta::Kind::content, test::text_of(chunk, "content"), 0});
    }
    const Json* calls = chunk.find("tool_calls");
    for (size_t i = 0; calls != nullptr && i < calls->items().size(); ++i) {
      const Json& call = calls->items()[i];
      const int64_t index = test::integer_of(call, "index");
      if (call.find("name") != nullptr) {
        deltas.push_back({AnswerDelta::Kind::call_name, test::text_of(call, "name"), index});
      }
      deltas.push_back(
          {AnswerDelta::Kind::call_arguments, test::text_of(call, "arguments"), index});
    }
  }
  return deltas;
}

Answer recorded_final(const Json& row) {
  Answer answer;
  const Json& final = *row.find("final");
  answer.reasoning = test::text_of(final, "reasoning_content");
  answer.content = test::text_of(final, "content");
  for (const Json& call : final.find("tool_calls")->items()) {
    const int64_t index = static_cast<int64_t>(answer.tool_calls.size());
    append({{AnswerDelta::Kind::call_name, test::text_of(call, "name"), index},
            {AnswerDelta::Kind::call_arguments, test::text_of(call, "arguments"), index}},
           answer);
  }
  return answer;
}

// Where deepseek-recipe is defective: the arguments of the one call.
const std::map<std::string, std::string>& corrected_arguments() {
  static const std::map<std::string, std::string> rows = {
      // The name's quotation mark is not copied as it is. The type is missing, so the name never
      // ends and the call stays open: no JSON in both.
      {"p089", R"({"p\">v)"},
      {"p096", R"({"k\"ey": "v"})"},
  };
  return rows;
}

TEST(StreamedCompletion, HasTheRecordedAnswers) {
  for (const Json& row : test::read_json_lines(test::golden_path("text/parse_recipe.jsonl"))) {
    const std::string id = test::text_of(row, "id");
    SCOPED_TRACE(id);
    Answer expected = recorded_final(row);
    if (corrected_arguments().contains(id)) {
      ASSERT_EQ(expected.tool_calls.size(), 1U);
      EXPECT_NE(expected.tool_calls[0].arguments, corrected_arguments().at(id));
      expected.tool_calls[0].arguments = corrected_arguments().at(id);
    }
    const CompletionOptions options = options_of(row);
    EXPECT_EQ(shown(parse_stream(options, test::text_of(row, "text"))), shown(expected));
    for (const Json& stream : row.find("streams")->items()) {
      std::vector<std::string> pieces;
      for (const Json& piece : stream.find("pieces")->items()) {
        pieces.push_back(piece.text());
      }
      EXPECT_EQ(shown(answer_of(run(options, pieces))), shown(expected));
    }
    for (const int64_t call : test::integers_of(row, "arguments_not_json")) {
      const std::string& arguments = expected.tool_calls[static_cast<size_t>(call)].arguments;
      if (id == "p096") {
        EXPECT_EQ(test::text_of(io::parse_json(arguments, id), "k\"ey"), "v");
      } else {
        EXPECT_THROW(io::parse_json(arguments, id), Error) << arguments;
      }
    }
  }
}

std::string without_blanks(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

// How much longer `whole` is than `begin`; -1 if it is not a continuation.
int64_t surplus(const Answer& begin, const Answer& whole) {
  if (!whole.reasoning.starts_with(begin.reasoning) || !whole.content.starts_with(begin.content) ||
      whole.tool_calls.size() < begin.tool_calls.size()) {
    return -1;
  }
  size_t bytes =
      whole.reasoning.size() - begin.reasoning.size() + whole.content.size() - begin.content.size();
  for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
    const AnsweredCall known =
        i < begin.tool_calls.size() ? begin.tool_calls[i] : AnsweredCall{"", "", ""};
    const AnsweredCall& call = whole.tool_calls[i];
    if (i < begin.tool_calls.size() && known.name != call.name) {
      return -1;
    }
    if (!call.arguments.starts_with(known.arguments)) {
      return -1;
    }
    bytes += call.arguments.size() - known.arguments.size();
  }
  return static_cast<int64_t>(bytes);
}

// What a push gives out, against what deepseek-recipe gave out for the same pieces.
//   - Nothing is held back by us: exactly the same.
//   - Our end of the text may still become a tag: deepseek-recipe holds back the whole of the piece
//     that this end is in, we hold back this end. So we are never later, and earlier by no more
//     than that piece.
//   - Inside a parameter's name: deepseek-recipe copies every quotation mark and ends the name at
//     the first blank, also in {"my: "value"}. We wait for `" string="`, so the quotation mark and
//     the colon come up to nine bytes later.
//   - JSON mode: one blank instead of one for every piece.
TEST(StreamedCompletion, GivesOutWhatTheRecordedStreamsDo) {
  int same = 0;
  int earlier = 0;
  int later = 0;
  for (const Json& row : test::read_json_lines(test::golden_path("text/parse_recipe.jsonl"))) {
    const std::string id = test::text_of(row, "id");
    if (corrected_arguments().contains(id)) {
      continue;
    }
    const CompletionOptions options = options_of(row);
    for (const Json& stream : row.find("streams")->items()) {
      const std::vector<Json>& recorded = stream.find("deltas")->items();
      std::vector<std::string> pieces;
      Answer theirs;
      Answer ours;
      StreamRun streamed;
      for (const Json& piece : stream.find("pieces")->items()) {
        SCOPED_TRACE(id + ", piece " + std::to_string(pieces.size()) + " " +
                     tessera::quoted(piece.text()));
        pieces.push_back(piece.text());
        streamed = run(options, pieces);
        if (pieces.size() >= recorded.size()) {  // theirs had ended before
          EXPECT_TRUE(streamed.is_finished[pieces.size() - 1]);
          EXPECT_TRUE(streamed.pushes[pieces.size() - 1].empty());
          continue;
        }
        append(recorded_deltas(recorded[pieces.size()]), theirs);
        append(streamed.pushes[pieces.size() - 1], ours);
        if (options.is_json) {
          theirs.content = without_blanks(theirs.content);
          ours.content = without_blanks(ours.content);
        }
        Answer if_it_ended = ours;
        append(streamed.pushes.back(), if_it_ended);
        const int64_t ahead = surplus(theirs, ours);
        if (ours == if_it_ended || ahead == 0) {
          EXPECT_EQ(shown(ours), shown(theirs));
          ++same;
        } else if (ahead > 0) {
          EXPECT_LE(ahead, static_cast<int64_t>(6 * piece.text().size()));  // \u0001
          ++earlier;
        } else {
          ASSERT_GT(surplus(ours, theirs), 0) << shown(ours) << " " << shown(theirs);
          const std::string missing =
              theirs.tool_calls.back().arguments.substr(ours.tool_calls.back().arguments.size());
          EXPECT_TRUE(missing == "\"" || missing == "\": ") << missing;
          EXPECT_GE(surplus(theirs, if_it_ended), 0);
          ++later;
        }
      }
      const bool ended_early = recorded.size() < pieces.size() + 3;
      EXPECT_EQ(!streamed.stop_string.empty(), ended_early) << id;
    }
  }
  EXPECT_EQ(same, 950);
  EXPECT_EQ(earlier, 117);
  EXPECT_EQ(later, 37);
}

}  // namespace
}  // namespace tessera::deepseek_v41
