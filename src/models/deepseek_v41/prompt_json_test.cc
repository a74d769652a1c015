#include "models/deepseek_v41/prompt_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/json_lines.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

Json json_of(std::string_view text) { return io::parse_json(text, "test"); }

std::vector<Message> messages_of(std::string_view text) {
  return messages_from_json(json_of(text), "messages");
}

template <typename Call>
void expect_error(const Call& call, std::string_view part) {
  try {
    call();
    ADD_FAILURE() << "no error about " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

TEST(TaggedText, EqualsTheReference) {
  const std::vector<Json> rows = test::read_json_lines(test::golden_path("text/tagged_text.jsonl"));
  ASSERT_EQ(rows.size(), 14U);
  for (const Json& row : rows) {
    const std::string text = test::text_of(row, "text");
    SCOPED_TRACE(text);
    if (row.find("error") != nullptr) {
      expect_error([&] { parse_tagged_text(text); }, test::text_of(row, "message"));
      continue;
    }
    const std::vector<ContentBlock> blocks = parse_tagged_text(text);
    const Json& expected = *row.find("blocks");
    if (expected.is_string()) {
      ASSERT_EQ(blocks.size(), 1U);
      EXPECT_EQ(blocks[0].kind, ContentBlock::Kind::text);
      EXPECT_EQ(blocks[0].text, expected.text());
      continue;
    }
    ASSERT_EQ(blocks.size(), expected.items().size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Json& block = expected.items()[i];
      if (const Json* image = block.find("image_url")) {
        EXPECT_EQ(blocks[i].kind, ContentBlock::Kind::image);
        EXPECT_EQ(blocks[i].image.value, test::text_of(*image, "url"));
      } else {
        EXPECT_EQ(blocks[i].kind, ContentBlock::Kind::text);
        EXPECT_EQ(blocks[i].text, test::text_of(block, "text"));
      }
    }
  }
}

TEST(PromptJson, ReadsEveryFormOfAnImage) {
  const std::vector<Message> messages = messages_of(R"([{"role":"user","content":[
    {"type":"image_url","image_url":{"url":"u","detail":"low"}},
    {"type":"image_url","image_url":"v"},
    {"type":"image","image":"图/a.png"},
    {"type":"image","url":"w"},
    {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
    {"type":"image","source":{"type":"url","url":"x"}},
    {"type":"image","data":"BBBB"}]}])");
  using Kind = ImageSource::Kind;
  const std::vector<ContentBlock>& blocks = messages[0].content;
  ASSERT_EQ(blocks.size(), 7U);
  const std::vector<ImageSource> expected = {{Kind::url, "u", "", "low"},
                                             {Kind::url, "v", "", ""},
                                             {Kind::url, "图/a.png", "", ""},
                                             {Kind::url, "w", "", ""},
                                             {Kind::base64, "AAAA", "image/png", ""},
                                             {Kind::url, "x", "", ""},
                                             {Kind::base64, "BBBB", "", ""}};
  for (size_t i = 0; i < blocks.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(blocks[i].kind, ContentBlock::Kind::image);
    EXPECT_EQ(blocks[i].image.kind, expected[i].kind);
    EXPECT_EQ(blocks[i].image.value, expected[i].value);
    EXPECT_EQ(blocks[i].image.media_type, expected[i].media_type);
    EXPECT_EQ(blocks[i].image.detail, expected[i].detail);
  }
}

TEST(PromptJson, NamesThePlaceOfAnError) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({})", "messages: expected a list"},
      {R"([1])", "messages[0]: expected a message"},
      {R"([{"content":"x"}])", "messages[0]: 'role' is missing"},
      {R"([{"role":"developer","content":"x"}])", "messages[0]: unknown role 'developer'"},
      {R"([{"role":"user"}])", "messages[0]: 'content' is missing"},
      {R"([{"role":"user","content":null}])", "messages[0]: 'content' is missing"},
      {R"([{"role":"user","content":5}])", "messages[0].content: expected a string"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]: expected a content block"},
      {R"([{"role":"user","content":[{"text":"x"}]}])",
       "messages[0].content[0]: 'type' is missing"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]: 'text'"},
      {R"([{"role":"user","content":[{"type":"image"}]}])",
       "messages[0].content[0]: an image block needs one of 'url'"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0]: 'url' is missing, expected a string"},
      {R"([{"role":"user","content":[{"type":"image","source":{"type":"file"}}]}])",
       "messages[0].content[0]: image source of type 'file', expected base64 or url"},
      {R"([{"role":"system","content":[{"type":"tool_result"}]}])",
       "messages[0].content[0]: a tool_result block can stand only in a user message"},
      {R"([{"role":"user","content":[{"type":"tool_result","content":[{"type":"tool_result"}]}]}])",
       "messages[0].content[0].content[0]: a tool_result block"},
      {R"([{"role":"user","content":"x","task":"sing"}])",
       "messages[0]: unknown task 'sing', expected one of action, query"},
      {R"([{"role":"user","content":"x","reasoning_content":"r"}])",
       "messages[0]: 'reasoning_content' belongs in a message of role assistant"},
      {R"([{"role":"user","content":"x","wo_eos":true}])",
       "messages[0]: 'wo_eos' belongs in a message of role assistant"},
      {R"([{"role":"assistant","content":"x","wo_eos":1}])",
       "messages[0]: 'wo_eos' is '1', expected true or false"},
      {R"([{"role":"user","content":"x","response_format":{}}])",
       "messages[0]: 'response_format' belongs in a message of role system"},
      {R"([{"role":"assistant","function_call":{}}])",
       "messages[0]: 'function_call' is not supported"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls: expected a list"},
      {R"([{"role":"assistant","tool_calls":[{"type":"x"}]}])",
       "messages[0].tool_calls[0]: tools of type 'x' are not supported"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0]: 'arguments' is missing"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[]}}]}])",
       "messages[0].tool_calls[0]: 'arguments' is neither a string nor an object, but a list"},
      {R"([{"role":"system","content":"","tools":[{"name":"f"}]}])",
       "messages[0].tools[0]: 'function' is missing"},
      {R"([{"role":"system","content":"","tools":[{"function":{}}]}])",
       "messages[0].tools[0]: 'name' is missing"},
      {R"([{"role":"system","content":"","tools":[{"namespace":3,"function":{"name":"f"}}]}])",
       "messages[0].tools[0]: 'namespace' is neither a string nor an object with a name, but a "
       "number"},
      {R"([{"role":"user","content":"x"},{"role":"assistant","tool_calls":[
          {"function":{"name":"f","arguments":"{}"}},
          {"id":5,"function":{"name":"f","arguments":"{}"}}]}])",
       "messages[1].tool_calls[1]: 'id' is a number, expected a string"},
      {R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","content":[
          {"type":"text","text":5}]}]}])",
       "messages[0].content[1].content[0]: 'text' is a number, expected a string"},
      {R"([{"role":"system","content":"","tools":[{"function":{"name":"f"}},{"namespace":"n",
          "function":{"name":"m::f"}}]}])",
       "messages[0].tools[1]: Conflicting tool namespaces: n != m"},
      {R"([{"role":"user","content":[{"type":"image","source":5}]}])",
       "messages[0].content[0]: 'source' is a number"},
      {R"([{"role":"user","content_blocks":[5]}])",
       "messages[0].content_blocks[0]: expected a content block, an object with a type, found a "
       "number"},
  };
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text);
    expect_error([&] { messages_of(text); }, part);
    EXPECT_EQ(std::string_view(part).rfind("messages", 0), 0U);
  }
}

TEST(PromptJson, KeepsToolArgumentsInOrderAndSpelling) {
  const std::vector<Message> messages = messages_of(
      R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","namespace":{"name":"n"},
          "function":{"name":"f","arguments":"{\"b\": 100000000000000000000, \"a\": \"x\", \"b\": 1e5}"}}]}])");
  const ToolCall& call = messages[0].tool_calls[0];
  EXPECT_EQ(call.name, "n::f");
  ASSERT_EQ(call.arguments.size(), 2U);
  EXPECT_EQ(call.arguments[0].name, "b");
  EXPECT_EQ(call.arguments[0].value, "100000.0");
  EXPECT_FALSE(call.arguments[0].is_string);
  EXPECT_EQ(call.arguments[1].value, "x");
  EXPECT_TRUE(call.arguments[1].is_string);
}

TEST(PromptJson, ReadsEffort) {
  EXPECT_EQ(effort_from_json(json_of("\"low\""), "t"), 50);
  EXPECT_EQ(effort_from_json(json_of("\"high\""), "t"), 75);
  EXPECT_EQ(effort_from_json(json_of("\"max\""), "t"), 100);
  EXPECT_EQ(effort_from_json(json_of("1"), "t"), 1);
  EXPECT_EQ(effort_from_json(json_of("100"), "t"), 100);
  for (const char* bad :
       {"0", "101", "-5", "1.0", "5e1", "true", "null", "\"37\"", "\"medium\"", "\"\"", "[]"}) {
    SCOPED_TRACE(bad);
    expect_error([&] { effort_from_json(json_of(bad), "t"); }, "reasoning_effort is");
  }
  EXPECT_EQ(parse_effort("37"), 37);
  EXPECT_EQ(parse_effort("off"), std::nullopt);
  EXPECT_EQ(parse_effort("0"), std::nullopt);
}

TEST(PromptJson, ReadsTheThreeFormsOfACaseFile) {
  const std::vector<PromptCase> bare =
      cases_from_json(json_of(R"([{"role":"user","content":"x"}])"), "f");
  ASSERT_EQ(bare.size(), 1U);
  EXPECT_EQ(bare[0].messages[0].content[0].text, "x");
  EXPECT_FALSE(bare[0].is_thinking.has_value());

  const std::vector<PromptCase> one = cases_from_json(
      json_of(R"({"name":"a","messages":[{"role":"user","content":"x"}],"thinking_mode":"chat",
                  "reasoning_effort":"low","context":[{"role":"user","content":"c"}],"other":1})"),
      "f");
  EXPECT_EQ(one[0].name, "a");
  EXPECT_EQ(one[0].is_thinking, false);
  EXPECT_EQ(one[0].effort, 50);
  EXPECT_EQ(one[0].context.size(), 1U);

  const std::vector<PromptCase> list = cases_from_json(
      json_of(R"([{"messages":[{"role":"user","content":"x"}],"thinking_mode":"thinking"},
                  {"prompt":"raw","images":["p.png",{"url":"q"}]}])"),
      "f");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].is_thinking, true);
  EXPECT_EQ(list[1].raw_prompt, "raw");
  ASSERT_EQ(list[1].raw_images.size(), 2U);
  EXPECT_EQ(list[1].raw_images[0].value, "p.png");

  for (const char* bad :
       {"[]", "3", "{}", R"([{"messages":1}])", R"([[]])", R"({"prompt":"x","images":5})",
        R"({"prompt":"x","images":[5]})", R"({"prompt":"x","thinking_mode":"on"})"}) {
    SCOPED_TRACE(bad);
    expect_error([&] { cases_from_json(json_of(bad), "file.json"); }, "file.json");
  }
}

TEST(PromptJson, ToolsOfACaseAreAlwaysWritten) {
  const Json tools = json_of(R"([{"type":"function","function":{"name":"f","x":1.50}}])");
  std::vector<Message> messages = messages_of(R"([{"role":"user","content":"x"}])");
  attach_tools(tools, "tools", messages);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, Role::system);
  EXPECT_EQ(messages[0].tools, std::vector<std::string>{"{\"name\": \"f\", \"x\": 1.5}"});
  expect_error([&] { attach_tools(tools, "tools", messages); }, "tools of its own");

  messages = messages_of(R"([{"role":"system","content":"s"}])");
  attach_tools(tools, "tools", messages);
  EXPECT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].tools.size(), 1U);
  attach_tools(json_of("[]"), "tools", messages);
  EXPECT_EQ(messages.size(), 1U);
}

}  // namespace
}  // namespace tessera::deepseek_v41
