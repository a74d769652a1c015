// tessera tokenize: its three forms against the recorded tokenizer, chat and parser data.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/json_lines.h"
#include "tests/support/temp_folder.h"
#include "tests/support/xz.h"

namespace tessera::test {
namespace {

using io::Json;

// The released V4.1 tokenizer, unpacked once.
class Tokenize : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    folder_->write("tokenizer.json",
                   read_xz_file(golden_path("text/tokenizers/deepseek_v41.tokenizer.json.xz")));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string released() { return *folder_ / "tokenizer.json"; }
  static TempFolder* folder_;
};
TempFolder* Tokenize::folder_ = nullptr;

std::vector<Json> golden(std::string_view name) {
  return read_json_lines(golden_path(str_cat("text/", name, ".jsonl")));
}

TEST_F(Tokenize, TextGivesIdsAndPieces) {
  const std::vector<Json> rows = golden("tok_demo_v41");
  for (size_t i = 0; i < rows.size(); i += 41) {
    const std::string text = text_of(rows[i], "text");
    if (text.find('\0') != std::string::npos || text.empty() || text[0] == '-') {
      continue;  // cannot be an argument
    }
    const Json got = json_of({"tokenize", "--", text});
    EXPECT_EQ(integers_of(got, "ids"), integers_of(rows[i], "ids")) << text;
    EXPECT_EQ(got.find("pieces")->items().size(), got.find("ids")->items().size());
    ProgramOptions from_stdin;
    from_stdin.input = text;
    EXPECT_EQ(integers_of(json_of({"tokenize", "-"}, from_stdin), "ids"),
              integers_of(rows[i], "ids"));
    const Json* plain = rows[i].find("ids_plain");
    EXPECT_EQ(integers_of(json_of({"tokenize", "--plain", "-"}, from_stdin), "ids"),
              integers_of(rows[i], plain == nullptr ? "ids" : "ids_plain"));
  }
  EXPECT_EQ(output_of({"tokenize", "Hi<｜User｜>"}),
            str_cat(output_of({"tokenize", "Hi"}), "1000\t\"<｜User｜>\"\n"));
}

TEST_F(Tokenize, WithTheReleasedTokenizer) {
  const Json got =
      json_of({"tokenize", "--tokenizer", released(), "Hello! 毕老师！1 + 1 = 2 ĠÑĤÐ²ÑĬÑĢ"});
  EXPECT_EQ(integers_of(got, "ids"),
            (std::vector<int64_t>{19923, 3,    223,   5464, 5008, 1175,  19,    940, 223,
                                  19,    438,  223,   20,   6113, 257,   76589, 131, 100,
                                  76032, 1628, 76589, 131,  108,  76589, 131,   98}));
}

// One request of every group.
TEST_F(Tokenize, ChatRequestsGiveTheRecordedPrompts) {
  std::set<std::string> groups;
  for (const Json& row : golden("chat_encode")) {
    const Json* request = row.find("request");
    const Json* same = row.find("same_prompt");
    const Json* ref = row.find("ref");
    if (request == nullptr || request->is_null() || same == nullptr ||
        !same->as_boolean().value_or(false) || ref->find("prompt") == nullptr ||
        !groups.insert(text_of(row, "group")).second) {
      continue;
    }
    const std::string file = folder_->write("request.json", io::dump_compact(*request));
    const Json got = json_of({"tokenize", "--tokenizer", released(), "--chat", file});
    EXPECT_EQ(text_of(got, "prompt"), text_of(*ref, "prompt")) << text_of(row, "id");
    EXPECT_EQ(integers_of(got, "prompt_ids"), integers_of(*row.find("recipe"), "ids"))
        << text_of(row, "id");
    EXPECT_EQ(io::dump_compact(*got.find("special_ranges")),
              io::dump_compact(*row.find("recipe")->find("special_ranges")));
    const Json* images = ref->find("images");
    EXPECT_EQ(got.find("images")->items().size(), images == nullptr ? 0 : images->items().size());
  }
  EXPECT_GT(groups.size(), 10U);
}

TEST_F(Tokenize, ExpandOpensThePictures) {
  const TempFolder folder;
  const std::string file = folder.write(
      "request.json",
      str_cat(R"({"thinking":{"type":"disabled"},"messages":[{"role":"user","content":[)",
              R"({"type":"image_url","image_url":{"url":")", picture("p003.png"),
              R"("}},{"type":"text","text":"What does the image show?"}]}]})"));
  const Json run = json_of(
      {"run", "--think", "off", "--image", picture("p003.png"), "What does the image show?"});
  const Json plain = json_of({"tokenize", "--chat", file});
  expect_members(plain, {{"prompt", Json::Kind::string},
                         {"prompt_ids", Json::Kind::array},
                         {"special_ranges", Json::Kind::array},
                         {"images", Json::Kind::array}});
  const Json expanded = json_of({"tokenize", "--expand", "--chat", file});
  EXPECT_EQ(static_cast<int64_t>(expanded.find("ids")->items().size()),
            integer_of(run, "prompt_tokens"));
  EXPECT_EQ(expanded.find("types")->items().size(), expanded.find("ids")->items().size());
  const Json& span = expanded.find("spans")->items().at(0);
  EXPECT_EQ(integer_of(span, "length"), integers_of(run, "span_tokens")[0]);
  const Json& first =
      expanded.find("types")->items().at(static_cast<size_t>(integer_of(span, "start")));
  EXPECT_EQ(first.as_int64(), 0);
  // A picture that is not there matters only when it is opened.
  const std::string absent = folder.write(
      "absent.json", R"({"messages":[{"role":"user","content":[{"type":"image_url",)"
                     R"("image_url":{"url":"no.png"}},{"type":"text","text":"?"}]}]})");
  EXPECT_EQ(run_program({"tokenize", "--chat", absent}).status, 0);
  expect_error(run_program({"tokenize", "--expand", "--chat", absent}), 2, {"no.png"});
}

TEST_F(Tokenize, ParsesAnswers) {
  std::map<std::string, int> kinds;
  for (const Json& row : golden("parse_recipe")) {
    const Json& options = *row.find("options");
    const std::string stage = text_of(options, "stage");
    if (text_of(row, "end") != "stop" || row.find("split_dependent") != nullptr ||
        row.find("arguments_not_json") != nullptr || options.find("parse_tool_calls") != nullptr ||
        stage.ends_with("Continuation")) {
      continue;
    }
    Arguments arguments = {"tokenize", "--parse",
                           folder_->write("answer.txt", text_of(row, "text")), "--think",
                           stage.empty() ? "off" : "on"};
    std::string kind = stage;
    if (const Json* stops = options.find("stop")) {
      kind += " stop";
      for (const Json& stop : stops->items()) {
        arguments.insert(arguments.end(), {"--stop", stop.text()});
      }
    }
    if (options.find("parse_json_output") != nullptr) {
      kind += " json";
      arguments.push_back("--json-output");
    }
    if (options.find("starts_in_tool_calls") != nullptr) {
      kind += " calls";
      arguments.push_back("--in-tool-calls");
    }
    if (++kinds[kind] > 6) {
      continue;
    }
    const Json got = json_of(arguments);
    const Json& expected = *row.find("final");
    EXPECT_EQ(text_of(got, "content"), text_of(expected, "content")) << text_of(row, "id");
    EXPECT_EQ(text_of(got, "reasoning"), text_of(expected, "reasoning_content"));
    EXPECT_EQ(text_of(got, "finish_reason"), text_of(expected, "finish_reason"));
    const std::vector<Json>& calls = got.find("tool_calls")->items();
    const std::vector<Json>& expected_calls = expected.find("tool_calls")->items();
    ASSERT_EQ(calls.size(), expected_calls.size()) << text_of(row, "id");
    for (size_t i = 0; i < calls.size(); ++i) {
      const Json& function = *calls[i].find("function");
      EXPECT_EQ(text_of(function, "arguments"), text_of(expected_calls[i], "arguments"));
    }
  }
  EXPECT_EQ(kinds.size(), 5U);  // answer, reasoning, stop, json, calls
}

TEST_F(Tokenize, StrictParserWantsAWholeAnswer) {
  const std::string whole =
      folder_->write("whole.txt", "2 + 2</think>4<｜end▁of▁sentence｜>rest is an error");
  expect_error(run_program({"tokenize", "--strict", "--think", "on", "--parse", whole}), 2);
  const std::string right = folder_->write("right.txt", "2 + 2</think>4<｜end▁of▁sentence｜>");
  const Json got = json_of({"tokenize", "--strict", "--think", "on", "--parse", right});
  EXPECT_EQ(text_of(got, "content"), "4");
  EXPECT_EQ(text_of(got, "reasoning"), "2 + 2");
  expect_error(run_program({"tokenize", "--strict", "--think", "on", "--parse",
                            folder_->write("open.txt", "no end")}),
               2);
}

TEST_F(Tokenize, BadUsage) {
  expect_error(run_program({"tokenize"}), 2, {"TEXT", "--chat", "--parse"});
  expect_error(run_program({"tokenize", "a", "--parse", "b"}), 2, {"one of"});
  expect_error(run_program({"tokenize", "--expand", "a"}), 2, {"--expand"});
  expect_error(run_program({"tokenize", "--parse", "/no/such/file"}), 2, {"/no/such/file"});
  expect_error(run_program({"tokenize", "--chat", "/no/such/file"}), 2, {"/no/such/file"});
  expect_error(run_program({"tokenize", "--tokenizer", "/no/such/file", "a"}), 2,
               {"/no/such/file"});
  const std::string file = folder_->write("answer.txt", "x");
  expect_error(run_program({"tokenize", "--parse", file, "--think", "maybe"}), 2, {"maybe"});
  expect_error(run_program({"tokenize", "--parse", file, "--stop", ""}), 2, {"--stop"});
  expect_error(run_program({"tokenize", "--parse", file, "--think", "on", "--in-tool-calls"}), 2,
               {"--in-tool-calls"});
}

}  // namespace
}  // namespace tessera::test
