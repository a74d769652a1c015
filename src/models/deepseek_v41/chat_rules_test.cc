// Rules of chat_request.h that no recorded request shows: extensions, file parts, paths,
// namespaces, sizes and malformed text.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/chat_request.h"
#include "models/deepseek_v41/prompt.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

ChatRequest parse(std::string_view text, ImagePaths paths = ImagePaths::refuse) {
  return parse_chat_request(text, "request", paths);
}

// The message with which `text` is refused; "" if it is accepted.
std::string refusal(std::string_view text, ImagePaths paths = ImagePaths::refuse) {
  try {
    parse(text, paths);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return error.what();
  }
}

std::string with_user(std::string_view members) {
  return str_cat(R"({"messages":[{"role":"user","content":"x"}],)", members, "}");
}

std::string with_messages(std::string_view messages) {
  return str_cat(R"({"messages":[)", messages, "]}");
}

// A request whose user message holds one picture.
std::string with_picture(std::string_view url) {
  return with_messages(str_cat(R"({"role":"user","content":[{"type":"image_url","image_url":)",
                               R"({"url":)", io::dump_compact(Json::string(std::string(url))),
                               "}}]}"));
}

std::string prompt_text(const ChatRequest& request) {
  const PromptEncoder encoder(test::released_tokenizer(), test::kReleasedImageId);
  PromptOptions options;
  options.is_thinking = request.is_thinking.value_or(true);
  options.starts_calls = request.forces_calls;
  return encoder.encode(request.messages, options).text;
}

TEST(ChatRules, MapsEffortsLikeTheDeepSeekApi) {
  const std::vector<std::pair<const char*, int>> levels = {
      {"\"minimal\"", 50}, {"\"low\"", 50},  {"\"medium\"", 75}, {"\"high\"", 75},
      {"\"xhigh\"", 75},   {"\"max\"", 100}, {"\"ultra\"", 100}, {"1", 1},
      {"37", 37},          {"100", 100}};
  for (const auto& [text, effort] : levels) {
    SCOPED_TRACE(text);
    const ChatRequest request = parse(with_user(str_cat("\"reasoning_effort\":", text)));
    EXPECT_EQ(request.effort, effort);
    EXPECT_EQ(request.is_thinking, true);
  }
  const ChatRequest none = parse(with_user(R"("reasoning_effort":"none")"));
  EXPECT_EQ(none.is_thinking, false);
  EXPECT_FALSE(none.effort.has_value());
  // The level turns thinking off whatever else is said; `disabled` does so too.
  EXPECT_EQ(
      parse(with_user(R"("reasoning_effort":"none","thinking":{"type":"enabled"})")).is_thinking,
      false);
  EXPECT_EQ(
      parse(with_user(R"("reasoning_effort":"max","thinking":{"type":"disabled"})")).is_thinking,
      false);
  EXPECT_EQ(parse(with_user(R"("thinking":{"type":"adaptive","budget_tokens":5})")).is_thinking,
            true);
  const ChatRequest silent = parse(with_user(R"("reasoning_effort":null,"thinking":null)"));
  EXPECT_FALSE(silent.is_thinking.has_value());
  EXPECT_FALSE(silent.effort.has_value());
  for (const char* bad : {"0", "101", "-1", "37.0", "1e2", "99999999999999999999", "[]", "\"37\"",
                          "\"High\"", "{}"}) {
    SCOPED_TRACE(bad);
    EXPECT_NE(refusal(with_user(str_cat("\"reasoning_effort\":", bad)))
                  .find("request.reasoning_effort: "),
              std::string::npos);
  }
}

TEST(ChatRules, NullIsAbsent) {
  const ChatRequest request = parse(R"({"messages":[
    {"role":"user","content":"x","name":null,"task":null},
    {"role":"assistant","content":"y","reasoning_content":null,"tool_calls":null,"prefix":null},
    {"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"a","content":[]}],
    "tools":null,"tool_choice":null,"response_format":null,"functions":null})");
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_TRUE(request.messages[2].content.empty());
  EXPECT_FALSE(request.has_tools);
  EXPECT_FALSE(request.is_json);
}

TEST(ChatRules, ReadsFileParts) {
  const ChatRequest request = parse(R"({"messages":[{"role":"user","content":[
      {"type":"file","file_data":"data:image/png;base64,AAAA","filename":"a.png"}]}]})");
  EXPECT_EQ(request.messages[0].content[0].kind, ContentBlock::Kind::image);
  EXPECT_EQ(request.messages[0].content[0].image.value, "data:image/png;base64,AAAA");
  const std::vector<std::pair<const char*, const char*>> bad = {
      {R"({"type":"file"})", "content[0]: 'file_data' is missing"},
      {R"({"type":"file","file_data":5})", "content[0]: 'file_data' is a number"},
      {R"({"type":"file","file_data":"http://a/b"})", "content[0].file_data: 'http://a/b' is no"},
      {R"({"type":"file","file_data":"data:application/pdf;base64,AA"})",
       "content[0].file_data: a data: URL of type 'application/pdf'"},
      {R"({"type":"file","file_id":"f","file_data":"data:image/png;base64,AA"})",
       "content[0]: 'file_id' and 'file_data' together"}};
  for (const auto& [part, message] : bad) {
    SCOPED_TRACE(part);
    EXPECT_NE(refusal(with_messages(str_cat(R"({"role":"user","content":[)", part, "]}")))
                  .find(str_cat("request.messages[0].", message)),
              std::string::npos);
  }
}

TEST(ChatRules, KnowsTheFormsOfAnImageUrl) {
  const std::string longest = str_cat("http://a/", std::string(8192 - 9, 'a'));
  for (const std::string& good :
       {std::string("HTTPS://a/b"), longest, std::string("data:image/png;base64,AA AA\n"),
        std::string("DATA:Image/JPG;charset=x;base64,A-_/+="),
        std::string("data:image/gif;base64,A"),
        std::string("data:image/webp;base64,") + std::string(9000, 'A')}) {
    EXPECT_EQ(refusal(with_picture(good)), "") << good.substr(0, 40);
    EXPECT_EQ(refusal(with_picture(good), ImagePaths::allow), "") << good.substr(0, 40);
  }
  for (const std::string& bad :
       {std::string(), longest + "a", std::string("http:a"), std::string("https://"),
        std::string("ftp://a/b"), std::string("file:///a"), std::string("blob:x"),
        std::string("data:image/png;base64,"), std::string("data:image/png;base64,*"),
        std::string("data:image/png,x"), std::string("data:image/bmp;base64,AAAA"),
        std::string("data:,x"), std::string("data:;base64,AA"), std::string("a\0b", 3)}) {
    EXPECT_NE(refusal(with_picture(bad)), "") << bad.substr(0, 40);
    EXPECT_NE(refusal(with_picture(bad), ImagePaths::allow), "") << bad.substr(0, 40);
  }
  // Paths: for the machine's own user.
  for (const char* path : {"a.png", "pictures/a b.png", "/tmp/a.png", "../a.png", "C:a.png"}) {
    EXPECT_NE(refusal(with_picture(path)).find("files of this machine are not read"),
              std::string::npos)
        << path;
    EXPECT_EQ(refusal(with_picture(path), ImagePaths::allow), "") << path;
  }
}

TEST(ChatRules, PicturesBelongToSomeRoles) {
  constexpr std::string_view kPicture =
      R"([{"type":"image_url","image_url":{"url":"http://a/b","detail":"low"}}])";
  const ChatRequest request = parse(with_messages(str_cat(
      R"({"role":"system","content":)", kPicture, R"(},{"role":"assistant","content":"",)",
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)",
      R"({"role":"tool","tool_call_id":"1","content":)", kPicture, "}")));
  EXPECT_EQ(request.messages[0].content[0].image.detail, "low");
  EXPECT_EQ(request.messages[2].content[0].kind, ContentBlock::Kind::image);
  for (const char* role : {"assistant", "latest_reminder"}) {
    EXPECT_EQ(
        refusal(with_messages(str_cat(R"({"role":")", role, R"(","content":)", kPicture, "}"))),
        str_cat("request.messages[0].content[0]: a picture in a message of role ", role,
                "; pictures belong in messages of role system, user or tool"));
  }
}

TEST(ChatRules, KeepsWhatTheReferenceHasBeyondTheApi) {
  const ChatRequest request = parse(R"({"messages":[
    {"role":"latest_reminder","content":[{"type":"text","text":"now"}]},
    {"role":"user","content":"q"},
    {"role":"assistant","content":"a","wo_eos":true}],"thinking":{"type":"disabled"}})");
  EXPECT_TRUE(request.messages[2].is_open);
  EXPECT_EQ(prompt_text(parse(R"({"messages":[{"role":"user","content":"q","task":"title"}],
                                  "thinking":{"type":"disabled"}})")),
            "<｜begin▁of▁sentence｜><｜User｜>q<｜title｜>");
  EXPECT_NE(refusal(with_messages(R"({"role":"user","content":"x","task":"sing"})"))
                .find("request.messages[0]: unknown task 'sing'"),
            std::string::npos);
  // Elsewhere in a request these have a meaning; they are not dropped in silence.
  EXPECT_EQ(refusal(with_messages(R"({"role":"system","content":"x","tools":[]})")),
            "request.messages[0].tools: belongs in the request, beside 'messages'");
  EXPECT_EQ(refusal(with_user(R"("functions":[{"name":"f"}])")),
            "request.functions: not supported; send 'tools'");
  EXPECT_NE(
      refusal(with_messages(R"({"role":"assistant","content":"x","function_call":{"name":"f"}})"))
          .find("request.messages[0].function_call: not supported"),
      std::string::npos);
}

std::string named_tool(std::string_view name, std::string_view members = "") {
  return str_cat(R"({"type":"function")", members, R"(,"function":{"name":")", name, R"("}})");
}

TEST(ChatRules, ToolsHaveNamespaces) {
  const std::string tools = str_cat(
      "\"tools\":[", named_tool("read", R"(,"namespace":{"name":"files","description":"D"})"), ",",
      named_tool("read"), ",", named_tool("n::g", R"(,"namespace":"n")"), "]");
  const ChatRequest request = parse(with_user(tools));
  EXPECT_EQ(request.messages[0].role, Role::system);
  EXPECT_EQ(request.messages[0].tools,
            (std::vector<std::string>{R"({"name": "files::read", "description": "D"})",
                                      R"({"name": "read"})", R"({"name": "n::g"})"}));
  const std::string chosen = str_cat(tools, R"(,"thinking":{"type":"disabled"},"tool_choice":)");
  for (const std::string& choice :
       {named_tool("files::read"), named_tool("read", R"(,"namespace":"files")")}) {
    const ChatRequest forced = parse(with_user(chosen + choice));
    EXPECT_TRUE(forced.forces_calls);
    EXPECT_EQ(forced.messages[0].tools.size(), 1U);
  }
  const std::vector<std::pair<std::string, const char*>> bad = {
      {named_tool("a::b"), "request.tools[0].function.name: 'a::b' is no name"},
      {named_tool("b c", R"(,"namespace":"n")"),
       "request.tools[0].function.name: 'b c' is no name"},
      {named_tool("b", R"(,"namespace":"n n")"), "request.tools[0].namespace: 'n n' is no name"},
      {named_tool("b", R"(,"namespace":"")"), ""},
      {named_tool("m::b", R"(,"namespace":"n")"), "request.tools[0]: Conflicting tool namespaces"},
      {named_tool("b", R"(,"namespace":5)"), "request.tools[0]: 'namespace' is neither"}};
  for (const auto& [tool, message] : bad) {
    SCOPED_TRACE(tool);
    EXPECT_EQ(refusal(with_user(str_cat("\"tools\":[", tool, "]"))).rfind(message, 0), 0U);
  }
  EXPECT_EQ(refusal(with_user(str_cat("\"tools\":[", named_tool("f", R"(,"namespace":"n")"), ",",
                                      named_tool("n::f", R"(,"namespace":"n")"), "]"))),
            "request.tools[1].function.name: 'n::f' is the name of another tool too; names must "
            "differ");
}

TEST(ChatRules, ForcedCallsNeedToolsAndNoThinking) {
  const std::string tools = str_cat("\"tools\":[", named_tool("f"), ",", named_tool("g"), "],");
  const ChatRequest required = parse(with_user(tools + "\"tool_choice\":\"required\""));
  EXPECT_TRUE(required.forces_calls);
  EXPECT_FALSE(required.is_thinking.has_value());
  try {
    prompt_text(required);
    ADD_FAILURE() << "thinking is on unless the request turns it off";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
  }
  EXPECT_TRUE(prompt_text(parse(with_user(tools + R"("tool_choice":"required",)" +
                                          R"("reasoning_effort":"none")")))
                  .ends_with("<｜Assistant｜></think>\n\n<｜DSML｜ calls>\n"));
  EXPECT_NE(refusal(with_user(tools + R"("tool_choice":"required","reasoning_effort":"low")"))
                .find("request.tool_choice: a forced tool call leaves no room for thinking"),
            std::string::npos);
  const ChatRequest none = parse(with_user(tools + "\"tool_choice\":\"none\""));
  EXPECT_FALSE(none.has_tools);
  ASSERT_EQ(none.messages.size(), 1U);
  EXPECT_FALSE(parse(with_user("\"tools\":[],\"tool_choice\":\"required\"")).forces_calls);
  for (const char* bad :
       {"5", "[]", "{}", R"({"type":"function"})", R"({"type":"function","function":{}})",
        R"({"type":"allowed_tools","function":{"name":"f"}})"}) {
    SCOPED_TRACE(bad);
    EXPECT_EQ(refusal(with_user(str_cat(tools, "\"tool_choice\":", bad)))
                  .rfind("request.tool_choice: ", 0),
              0U);
  }
  EXPECT_EQ(refusal(with_user(R"("tool_choice":{"type":"function","function":{"name":"f"}})")),
            "request.tool_choice: no tool of the request is named 'f'");
}

TEST(ChatRules, NothingElseGoesWithAContinuation) {
  constexpr std::string_view kOpen = R"({"messages":[{"role":"user","content":"json"},)"
                                     R"({"role":"assistant","content":"{","prefix":true}])";
  EXPECT_EQ(refusal(str_cat(kOpen, "}")), "");
  EXPECT_EQ(refusal(str_cat(kOpen, ",\"tools\":[", named_tool("f"), "]}")),
            "request: the last message is to be continued (prefix), which goes with neither tools "
            "nor tool calls; leave out one or the other");
  EXPECT_EQ(refusal(str_cat(kOpen, R"(,"response_format":{"type":"json_object"}})")),
            "request: the last message is to be continued (prefix), which goes with no json_object "
            "format; leave out one or the other");
}

TEST(ChatRules, AnswersInJsonAreAskedForInSomeMessage) {
  constexpr std::string_view kFormat = R"("response_format":{"type":"json_object"})";
  const std::vector<std::pair<const char*, bool>> cases = {
      {R"({"role":"system","content":"JSON"},{"role":"user","content":"x"})", true},
      {R"({"role":"user","content":[{"type":"text","text":"aJsonb"}]})", true},
      {R"({"role":"user","content":"x"},{"role":"assistant","content":"json"})", true},
      {R"({"role":"user","content":"x"},{"role":"assistant","content":"","reasoning_content":)"
       R"("json"})",
       false},
      {R"({"role":"user","content":[{"type":"text","text":"js"},{"type":"text","text":"on"}]})",
       false},
      {R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a/json"}}]})",
       false}};
  for (const auto& [messages, is_good] : cases) {
    SCOPED_TRACE(messages);
    const std::string text = str_cat(R"({"messages":[)", messages, "],", kFormat, "}");
    EXPECT_EQ(refusal(text) == "", is_good) << refusal(text);
  }
}

TEST(ChatRules, ReadsResponseFormats) {
  const ChatRequest request = parse(with_user(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,)"
      R"("schema":{"type":"object","x":1.50}}})"));
  EXPECT_EQ(request.messages[0].role, Role::system);
  EXPECT_EQ(request.messages[0].response_format, R"({"type": "object", "x": 1.5})");
  EXPECT_FALSE(request.is_json);
  const std::vector<std::pair<const char*, const char*>> bad = {
      {R"({"type":"json_schema","json_schema":5})", "request.response_format: 'json_schema' is a"},
      {R"({"type":"json_schema","json_schema":{}})",
       "request.response_format.json_schema: 'schema' is missing"},
      {R"({"type":"json_schema","json_schema":{"schema":null}})",
       "request.response_format.json_schema.schema: found 'null', expected a schema"},
      {R"({"type":"json_schema","json_schema":{"schema":{"type":"foo"}}})",
       "request.response_format.json_schema.schema.type: found 'foo'"},
      {R"({"type":"regex","regex":"a"})", "request.response_format: unknown response format"},
      {R"({})", "request.response_format: 'type' is missing"}};
  for (const auto& [format, message] : bad) {
    SCOPED_TRACE(format);
    EXPECT_EQ(refusal(with_user(str_cat("\"response_format\":", format))).rfind(message, 0), 0U);
  }
}

TEST(ChatRules, TellsBodiesFromCases) {
  const auto is_body = [](std::string_view text) {
    return is_chat_request(io::parse_json(text, "file"));
  };
  EXPECT_TRUE(is_body(R"({"model":"m","messages":[]})"));
  EXPECT_TRUE(is_body(R"({"messages":[],"thinking":null})"));
  EXPECT_FALSE(is_body(R"({"messages":[],"tools":[],"reasoning_effort":5,"context":[]})"));
  EXPECT_FALSE(is_body(R"({"model":"m","prompt":"x"})"));
  EXPECT_FALSE(is_body(R"([{"role":"user","content":"model"}])"));
  EXPECT_FALSE(is_body("5"));
}

TEST(ChatRules, RefusesMalformedText) {
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"", "request: "},
      {"[]", "request: expected a request, an object with messages, found a list"},
      {"null", "request: expected a request, an object with messages, found null"},
      {R"({"messages":[{"role":"user","content":"\ud800"}]})", "request: "},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "request: "},
      {R"({"messages":[{"role":"user","role":"system","content":"x"}]})", "request: "},
      {with_user(R"("seed":1e999)"), "request: "},
      {with_user(str_cat("\"x\":", std::string(200, '['), std::string(200, ']'))), "request: "}};
  for (const auto& [text, message] : bad) {
    SCOPED_TRACE(text);
    EXPECT_EQ(refusal(text).rfind(message, 0), 0U) << refusal(text);
    EXPECT_NE(refusal(text), "");
  }
}

TEST(ChatRules, AZeroByteIsACharacter) {
  const ChatRequest request = parse(with_messages(R"({"role":"user","content":"a\u0000b"})"));
  EXPECT_EQ(request.messages[0].content[0].text, std::string("a\0b", 3));
  EXPECT_NE(prompt_text(request).find(str_cat("<｜User｜>", std::string("a\0b", 3), "<｜A")),
            std::string::npos);
}

TEST(ChatRules, ArgumentsKeepTheirNumbers) {
  const std::string digits(300, '7');
  const ChatRequest request = parse(with_messages(str_cat(
      R"({"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":)",
      R"({"name":"f","arguments":"{\"i\": )", digits, R"(, \"f\": 1e-7, \"n\": -0.0}"}}]},)",
      R"({"role":"tool","tool_call_id":"a","content":""})")));
  const std::vector<ToolArgument>& arguments = request.messages[0].tool_calls[0].arguments;
  ASSERT_EQ(arguments.size(), 3U);
  EXPECT_EQ(arguments[0].value, digits);
  EXPECT_EQ(arguments[1].value, "1e-07");
  EXPECT_EQ(arguments[2].value, "-0.0");
  // JSON text with a number beyond the largest double is not taken apart, as in deepseek-recipe.
  const ChatRequest beyond = parse(with_messages(
      R"({"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":)"
      R"({"name":"f","arguments":"{\"f\": 1e999}"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":""})"));
  ASSERT_EQ(beyond.messages[0].tool_calls[0].arguments.size(), 1U);
  EXPECT_EQ(beyond.messages[0].tool_calls[0].arguments[0].name, "arguments");
  EXPECT_EQ(beyond.messages[0].tool_calls[0].arguments[0].value, "{\"f\": 1e999}");
}

}  // namespace
}  // namespace tessera::deepseek_v41
