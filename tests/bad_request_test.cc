// Requests that cannot be right, given to the program: one line each, or the documented acceptance.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

using io::Json;

// A file that run --input and tokenize --chat refuse with messages that contain the parts.
struct BadFile {
  const char* content;
  std::vector<const char*> parts;
};

const std::vector<BadFile> kBadFiles = {
    {"", {"empty"}},
    {"{", {"not valid JSON"}},
    {"7", {}},
    {"[]", {"list"}},
    {R"({"messages":[]})", {"empty"}},
    {R"({"messages":7})", {"messages"}},
    {R"({"messages":[7]})", {"messages[0]"}},
    {R"({"messages":[{"content":"x"}]})", {"messages[0]", "role"}},
    {R"({"messages":[{"role":"robot","content":"x"}]})", {"messages[0]", "robot"}},
    {R"({"messages":[{"role":"user","content":7}]})", {"messages[0]", "content"}},
    {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", {"messages[0]", "text"}},
    {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", {"messages[0]", "type"}},
    {R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":7}]})",
     {"messages[1]", "tool_calls"}},
    {R"({"messages":[{"role":"user","content":"x"}],"tools":7})", {"tools"}},
    {R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})",
     {"tools[0]", "function"}},
    {R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"extreme"})",
     {"reasoning_effort", "extreme"}},
    {R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":101})",
     {"reasoning_effort", "101"}},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", {"UTF-8"}},
    {R"({"messages":[{"role":"user","content":"\ud800"}]})", {"surrogate"}}};

TEST(BadRequest, FilesAreRefusedByName) {
  const TempFolder folder;
  for (const BadFile& bad : kBadFiles) {
    const std::string file = folder.write("request.json", bad.content);
    for (const Arguments& command :
         {Arguments{"run", "--input", file}, Arguments{"tokenize", "--chat", file}}) {
      SCOPED_TRACE(str_cat(command[0], " ", bad.content));
      const ProgramResult result = run_program(command);
      expect_error(result, 2, {"request.json"});
      for (const char* part : bad.parts) {
        EXPECT_NE(result.err.find(part), std::string::npos) << part << " in " << result.err;
      }
    }
  }
}

TEST(BadRequest, DeepNestingIsRefused) {
  const TempFolder folder;
  std::string deep = R"({"messages":)";
  deep += std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const std::string file = folder.write("deep.json", deep);
  expect_error(run_program({"run", "--input", file}), 2, {"deep.json"});
  expect_error(run_program({"tokenize", "--chat", file}), 2, {"deep.json"});
}

// Ten megabytes are read and counted before they are refused for their length.
TEST(BadRequest, TenMegabytesOfText) {
  const TempFolder folder;
  std::string text;
  while (text.size() < 10'000'000) {
    text += "carrot 胡萝卜 ";
  }
  expect_error(run_program({"run", "--input", folder.write("long.txt", text)}), 2,
               {"tokens", "the context holds"});
  Json message = Json::object();
  message.set("role", Json::string("user"));
  message.set("content", Json::string(text));
  const std::string file = folder.write("long.json", io::dump_compact(Json::array({message})));
  expect_error(run_program({"run", "--input", file}), 2, {"tokens", "the context holds"});
}

// A NUL is a character like others; bytes that are not UTF-8 become U+FFFD on the command line.
TEST(BadRequest, OddCharactersAreTaken) {
  const TempFolder folder;
  const std::string file = folder.write("nul.json", R"([{"role":"user","content":"a\u0000b"}])");
  EXPECT_EQ(run_program({"run", "--input", file}).status, 0);
  EXPECT_EQ(output_of({"tokenize",
                       "a\xff"
                       "b"}),
            output_of({"tokenize",
                       "a\xef\xbf\xbd"
                       "b"}));
}

TEST(BadRequest, ToolAndSchemaFiles) {
  const TempFolder folder;
  const std::string text = folder.write("text.txt", "no JSON");
  expect_error(run_program({"run", "--tools", "/no/such/file", "Hi"}), 2, {"/no/such/file"});
  expect_error(run_program({"run", "--tools", text, "Hi"}), 2, {"text.txt"});
  expect_error(run_program({"run", "--tools", folder.write("tools.json", "{}"), "Hi"}), 2,
               {"tools.json"});
  expect_error(run_program({"run", "--response-format", text, "Hi"}), 2, {"text.txt"});
}

}  // namespace
}  // namespace tessera::test
