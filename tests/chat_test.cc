// tessera chat: from a pipe, and as a person uses it on a terminal.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"
#include "tests/support/terminal.h"

namespace tessera::test {
namespace {

using io::Json;

// The JSON values that a piped chat prints.
std::vector<Json> chat(const std::string& lines, Arguments arguments = {}) {
  arguments.insert(arguments.begin(), {"chat", "--json", "--no-history"});
  ProgramOptions options;
  options.input = lines;
  std::vector<Json> answers;
  std::string text = output_of(arguments, options);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    answers.push_back(io::parse_json(std::string_view(text).substr(at, end - at), "answer"));
    at = end + 1;
  }
  return answers;
}

std::string show(std::string_view name) { return str_cat("/image ", picture(name), "\n"); }

TEST(Chat, AnswersTurnsAndComputesOnlyWhatIsNew) {
  const std::vector<Json> answers =
      chat(show("p003.png") + "What does the image show?\nCount the carrots.\n图片里有什么？\n");
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(text_of(answers[0], "content"),
            text_of(json_of({"run", "--image", picture("p003.png"), "What does the image show?"}),
                    "content"));
  EXPECT_EQ(integer_of(answers[0], "cached_tokens"), 0);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(integer_of(answers[i], "cached_tokens"),
              integer_of(answers[i - 1], "prompt_tokens") +
                  integer_of(answers[i - 1], "completion_tokens") - 1);
    EXPECT_EQ(integer_of(answers[i], "image_tokens"), integer_of(answers[0], "image_tokens"));
  }
}

// Every recorded conversation of several turns, with its recorded answers.
TEST(Chat, AnswersAsOneRequestDoes) {
  const TempFolder folder;
  const std::string saved = folder / "saved.json";
  const std::vector<Json> answers =
      chat("/system You count vegetables.\n" + show("p001.png") + show("p002.png") +
           "Compare them.\nAnd the carrots?\n/save " + saved + "\n");
  ASSERT_EQ(answers.size(), 2U);
  Json conversation = io::read_json_file(saved);
  std::vector<Json>& messages = conversation.find("messages") == nullptr
                                    ? conversation.items()
                                    : conversation.members()[0].second.items();
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(text_of(messages[0], "role"), "system");
  messages.pop_back();  // the last answer, asked for again
  const std::string file = folder.write("again.json", io::dump_compact(conversation));
  const Json again = json_of({"run", "--input", file});
  EXPECT_EQ(integers_of(again, "ids"), integers_of(answers[1], "ids"));
  EXPECT_EQ(integer_of(again, "prompt_tokens"), integer_of(answers[1], "prompt_tokens"));
}

TEST(Chat, CommandsChangeTheConversation) {
  const std::vector<Json> answers = chat(
      "Hello\n/reset\nHello\n/system Be brief.\nHello\n/think low\nHello\n/system\n/think off\n"
      "/reset\nHello\n");
  ASSERT_EQ(answers.size(), 5U);
  const int64_t first = integer_of(answers[0], "prompt_tokens");
  EXPECT_EQ(integer_of(answers[1], "prompt_tokens"), first);
  EXPECT_GT(integer_of(answers[2], "prompt_tokens"), first + 3);
  EXPECT_GT(integer_of(answers[3], "prompt_tokens"), integer_of(answers[2], "prompt_tokens") + 10);
  EXPECT_EQ(integer_of(answers[4], "prompt_tokens"), first);
}

TEST(Chat, LinesAreMessagesAndMayBeContinued) {
  const std::vector<Json> answers =
      chat("one\\\ntwo\n//help\n\n   \n/quit\nnot asked\n", {"--max-tokens", "1"});
  ASSERT_EQ(answers.size(), 2U);
  const TempFolder folder;
  const std::string file = folder.write("case.json", R"([{"role":"user","content":"one\ntwo"}])");
  EXPECT_EQ(integer_of(answers[0], "prompt_tokens"), prompt_tokens({"run", "--input", file}));
}

TEST(Chat, BadLinesEndAPipedChat) {
  for (const auto& [lines, part] : std::vector<std::pair<std::string, std::string>>{
           {"/fly\n", "no command /fly"},
           {"/image /no/such.png\n", "/no/such.png"},
           {"/image\n", "/image"},
           {"/think much\n", "much"},
           {"/save\n", "/save"},
           {"/save /no/such/folder/file\n", "/no/such/folder"},
           {std::string(70000, 'x') + "\n", "the context holds"}}) {
    ProgramOptions options;
    options.input = lines;
    expect_error(run_program({"chat", "--no-history", "--context", "2000"}, options), 2, {part});
  }
  expect_error(run_program({"chat", "--temperature", "hot"}), 2, {"--temperature"});
}

// A prompt at which the program reads keys: what is typed before it meets the terminal's own line
// editing, which takes Ctrl-D for itself.
constexpr std::string_view kPrompt = "\x1b[?2004h> ";

class TerminalChat : public testing::Test {
 protected:
  std::vector<std::pair<std::string, std::string>> environment() const {
    return {{"XDG_STATE_HOME", state_.path()}};
  }
  TempFolder state_;
};

TEST_F(TerminalChat, AnswersAndLeaves) {
  Terminal terminal({"chat"}, environment());
  terminal.wait_for(kPrompt);
  terminal.type("/image " + picture("p003.png") + "\r");
  terminal.wait_for(kPrompt);
  terminal.type("What does the image show?\r");
  terminal.wait_for(text_of(
      json_of({"run", "--image", picture("p003.png"), "What does the image show?"}), "content"));
  terminal.wait_for(kPrompt);
  terminal.type("\x04");
  terminal.finish();
  EXPECT_EQ(terminal.status(), 0);
}

TEST_F(TerminalChat, InterruptStopsTheAnswerAndKeepsTheChat) {
  Terminal terminal(
      {"chat", "--ignore-eos", "--max-tokens", "20000", "--seed", "1", "--temperature", "1.5"},
      environment());
  terminal.wait_for(kPrompt);
  for (int i = 0; i < 2; ++i) {
    terminal.type("Hello\r");
    terminal.wait_for("\n");
    terminal.wait_for(" ");  // an answer has begun
    terminal.type("\x03");
    terminal.wait_for("(stopped)");
    terminal.wait_for(kPrompt);
  }
  terminal.type("half a line\x03");  // dropped
  terminal.wait_for(kPrompt);
  terminal.type("/quit\r");
  terminal.finish();
  EXPECT_EQ(terminal.status(), 0);
}

TEST_F(TerminalChat, ErrorsLeaveTheChat) {
  Terminal terminal({"chat"}, environment());
  terminal.wait_for(kPrompt);
  terminal.type("/fly\r");
  terminal.wait_for("tessera: no command /fly");
  terminal.wait_for(kPrompt);
  terminal.type("Hello\r");
  terminal.wait_for(kPrompt);
  terminal.type("/quit\r");
  terminal.finish();
  EXPECT_EQ(terminal.status(), 0);
}

TEST_F(TerminalChat, APasteOfSeveralLinesIsOneMessage) {
  const TempFolder folder;
  const std::string saved = folder / "saved.json";
  Terminal terminal({"chat"}, environment());
  terminal.wait_for(kPrompt);
  terminal.type("\x1b[200~first line\r第二行\r\x1b[201~end\r");
  terminal.wait_for("\n");
  terminal.wait_for(kPrompt);
  terminal.type("/save " + saved + "\r");
  terminal.wait_for(kPrompt);
  terminal.type("/quit\r");
  terminal.finish();
  const Json conversation = io::read_json_file(saved);
  const Json& first = conversation.find("messages")->items().at(0);
  EXPECT_EQ(text_of(first.find("content")->items().at(0), "text"), "first line\n第二行\nend");
}

TEST_F(TerminalChat, HistoryComesBackInTheNextSession) {
  {
    Terminal terminal({"chat"}, environment());
    terminal.wait_for(kPrompt);
    terminal.type("胡萝卜 and Hello\r");
    terminal.wait_for(kPrompt);
    terminal.type("/quit\r");
    terminal.finish();
  }
  const std::string file = state_ / "tessera/chat_history";
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Terminal terminal({"chat"}, environment());
  terminal.wait_for(kPrompt);
  terminal.type("\x1b[A\x1b[A");  // behind /quit
  terminal.wait_for("胡萝卜 and Hello");
  terminal.type("\r");
  terminal.wait_for(kPrompt);
  terminal.type("\x04");
  terminal.finish();
  EXPECT_EQ(terminal.status(), 0);
}

TEST_F(TerminalChat, NoHistoryLeavesNoFile) {
  Terminal terminal({"chat", "--no-history"}, environment());
  terminal.wait_for(kPrompt);
  terminal.type("Hello\r");
  terminal.wait_for(kPrompt);
  terminal.type("\x04");
  terminal.finish();
  EXPECT_FALSE(std::filesystem::exists(state_ / "tessera/chat_history"));
}

// Reasoning is faint on a terminal, unless colours are unwanted.
TEST_F(TerminalChat, StylesFollowTheTerminal) {
  const TempFolder folder;
  const std::string file = folder.write("answer.txt", "why</think>because");
  const auto shown = [&](std::vector<std::pair<std::string, std::string>> changes) {
    Terminal terminal({"tokenize", "--parse", file, "--think", "on"}, changes);
    return terminal.finish();
  };
  const std::string faint = "\x1b[2m";
  EXPECT_NE(shown({}).find(faint), std::string::npos);
  EXPECT_EQ(shown({{"NO_COLOR", "1"}}).find('\x1b'), std::string::npos);
  EXPECT_EQ(shown({{"TERM", "dumb"}}).find('\x1b'), std::string::npos);
  EXPECT_NE(shown({{"NO_COLOR", ""}}).find(faint), std::string::npos);
}

// What a model writes cannot steer the terminal; a file gets it as it is.
TEST_F(TerminalChat, ControlCharactersOfAModelAreShown) {
  const TempFolder folder;
  const std::string text =
      "a\x1b]0;title\x07 b\r\xc2\x9b"
      "31m \x7f c\td";
  const std::string file = folder.write("answer.txt", text);
  Terminal terminal({"tokenize", "--parse", file}, {{"NO_COLOR", "1"}});
  EXPECT_EQ(terminal.finish(), "a\\x1b]0;title\\x07 b\\x0d\\x9b31m \\x7f c\td\r\n");
  EXPECT_EQ(output_of({"tokenize", "--parse", file}), text + "\n");
}

}  // namespace
}  // namespace tessera::test
