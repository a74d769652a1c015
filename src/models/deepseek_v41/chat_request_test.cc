// Recorded requests (tests/golden/text/chat_requests.jsonl and chat_encode.jsonl) through the
// reader of Chat Completions bodies, up to prompt and ids.
#include "models/deepseek_v41/chat_request.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "models/deepseek_v41/prompt.h"
#include "tests/support/json_lines.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

ChatRequest request_of(const Json& body) {
  return chat_request_from_json(body, "request", ImagePaths::refuse);
}

Prompt prompt_of(const ChatRequest& request, EncodingRevision revision) {
  const PromptEncoder encoder(test::released_tokenizer(), test::kReleasedImageId);
  PromptOptions options;
  options.is_thinking = request.is_thinking.value_or(true);
  options.effort = request.effort.value_or(75);
  options.revision = revision;
  options.starts_calls = request.forces_calls;
  return encoder.encode(request.messages, options);
}

// The one-line message with which `body` is refused; "" if it is accepted.
std::string refusal_of(const Json& body) {
  try {
    request_of(body);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return error.what();
  }
}

// Bodies too long for the recording are described in it: "<601 image_url blocks of the 1x1 PNG>".
Json whole_body(const Json& row) {
  Json body = *row.find("request");
  const Json* list = body.find("messages");
  const Json* content =
      list == nullptr || list->items().empty() ? nullptr : list->items()[0].find("content");
  int count = 0;
  if (content == nullptr ||
      std::sscanf(content->text().c_str(), "<%d image_url blocks", &count) != 1) {
    return body;
  }
  Json parts = Json::array();
  for (int i = 0; i < count; ++i) {
    parts.items().push_back(io::parse_json(
        R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}})", "part"));
  }
  Json messages = *list;
  messages.items()[0].set("content", std::move(parts));
  body.set("messages", std::move(messages));
  return body;
}

// Refused by deepseek-recipe for the sake of other fields: options of sampling and transport, which
// other code checks.
const std::set<std::string>& other_fields() {
  static const std::set<std::string> ids = {
      "r076", "r078", "r079", "r080",  // stop
      "r082", "r083", "r084", "r086",  // max_tokens
      "r088", "r090", "r091",          // temperature
      "r092", "r093", "r094",          // top_p
      "r095", "r096",                  // presence_penalty, frequency_penalty
      "r097", "r098",                  // n
      "r099", "r100",                  // seed
      "r103", "r104", "r105",          // logprobs, top_logprobs
      "r106", "r107",                  // stream, stream_options
      "r121", "r122", "r124", "r125",  // model
  };
  return ids;
}

// What is said of each other refused body.
const std::map<std::string, std::string>& refusals() {
  static const std::map<std::string, std::string> messages = {
      {"r000", "request.messages: the list is empty; send at least one message"},
      {"r001", "request: 'messages' is missing, expected a list of messages"},
      {"r002", "request.messages: expected a list of messages, found null"},
      {"r003", "request.messages: expected a list of messages, found a string"},
      {"r004",
       "request.messages[0]: 'content' is missing, expected a string or a list of content parts"},
      {"r005",
       "request.messages[0].content: expected a string or a list of content parts, found null"},
      {"r006",
       "request.messages[0].content: expected a string or a list of content parts, found a number"},
      {"r007",
       "request.messages[0].role: unknown role 'robot', expected one of system, user, assistant, "
       "tool, latest_reminder"},
      {"r008", "request.messages[0].role: 'developer' is no role of this model; send role system"},
      {"r009", "request.messages[0]: 'role' is missing, expected a string"},
      {"r010",
       "request.messages[0].content[0]: unknown content part type 'audio', expected text, "
       "image_url or file"},
      {"r011", "request.messages[0].content[0]: 'type' is missing, expected a string"},
      {"r012",
       "request.messages[0].content[0]: expected a content part, an object with 'type', found a "
       "string"},
      {"r013", "request.messages[0].content[0]: 'text' is missing, expected a string"},
      {"r014",
       "request.messages[0].content[0]: 'image_url' is missing, expected an object with 'url'"},
      {"r015", "request.messages[0].content[0].image_url: 'url' is missing, expected a string"},
      {"r016",
       "request.messages[0].content[0].image_url.url: empty; send an http(s) URL or a data: URL "
       "(data:image/png;base64,...)"},
      {"r017",
       "request.messages[0].content[0].image_url.url: a URL of scheme 'ftp'; send an http(s) URL "
       "or a data: URL (data:image/png;base64,...)"},
      {"r018",
       "request.messages[0].content[0].image_url.url: a URL of scheme 'file'; send an http(s) URL "
       "or a data: URL (data:image/png;base64,...)"},
      {"r019",
       "request.messages[0].content[0].image_url.url: '/etc/passwd' is no URL, and files of this "
       "machine are not read for requests; send an http(s) URL or a data: URL "
       "(data:image/png;base64,...)"},
      {"r020",
       "request.messages[0].content[0].image_url.url: 'data:image/png;base64' is no base64 data: "
       "URL; write data:image/png;base64, and the file's bytes in base64"},
      {"r021",
       "request.messages[0].content[0].image_url.url: a data: URL of type 'text/plain'; send a "
       "PNG, JPEG, WebP or GIF file (data:image/png;base64,...)"},
      {"r022",
       "request.messages[0].content[0].image_url.url: 'data:image/png,rawbytes' is no base64 data: "
       "URL; write data:image/png;base64, and the file's bytes in base64"},
      {"r023",
       "request.messages[0].content[0].image_url.url: a data: URL of no type; send a PNG, JPEG, "
       "WebP or GIF file (data:image/png;base64,...)"},
      {"r024",
       "request.messages[0].content[0].image_url.url: the URL has 8219 bytes, at most 8192; send "
       "the picture as a base64 data: URL"},
      {"r025",
       "request.messages[0].content[0].image_url.detail: unknown detail 'medium', expected one of "
       "low, high, original, auto"},
      {"r027",
       "request.messages[0].content[0]: 'image_url' is a string, expected an object with 'url'"},
      {"r028",
       "request.messages[0].content[0]: 'file_id' names an uploaded file, and there are none here; "
       "send the picture in 'file_data' as a base64 data: URL"},
      {"r029",
       "request.messages[0].content[0]: unknown content part type 'image', expected text, "
       "image_url or file; write {\"type\":\"image_url\",\"image_url\":{\"url\":...}}"},
      {"r031",
       "request.messages[1].content[0]: a picture in a message of role assistant; pictures belong "
       "in messages of role system, user or tool"},
      {"r033",
       "request.messages[1]: an assistant message needs 'content' (a string, maybe empty) or "
       "'tool_calls'"},
      {"r034",
       "request.messages[1]: an assistant message needs 'content' (a string, maybe empty) or "
       "'tool_calls'"},
      {"r035",
       "request.messages[1].tool_calls: the list is empty; leave it out, or send at least one "
       "call"},
      {"r036",
       "request.messages[1].tool_calls[0]: call 'a' has no result; a tool message for each call "
       "must follow this message"},
      {"r037",
       "request.messages[1].tool_calls[0]: call 'a' has no result; a tool message for each call "
       "must follow this message"},
      {"r038",
       "request.messages[2].tool_call_id: 'zzz' is the id of no call in "
       "request.messages[1].tool_calls"},
      {"r039",
       "request.messages[3].tool_call_id: call 'a' has its result already; send one result for "
       "each call"},
      {"r040",
       "request.messages[1]: a tool message that answers no call; it must follow an assistant "
       "message with tool_calls"},
      {"r041",
       "request.messages[0]: a tool message that answers no call; it must follow an assistant "
       "message with tool_calls"},
      {"r042",
       "request.messages[1].tool_calls[1].id: 'a' is used twice in this message; ids of its calls "
       "must differ"},
      {"r046", "request.messages[1].tool_calls[0]: 'type' is missing, expected a string"},
      {"r048",
       "request.tools[0].function.name: 'bad name' is no name of 1 to 128 letters, digits, '_' and "
       "'-'"},
      {"r049",
       "request.tools[0].function.name: '' is no name of 1 to 128 letters, digits, '_' and '-'"},
      {"r050",
       "request.tools[0].function.name: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' is no name "
       "of 1 to 128 letters, digits, '_' and '-'"},
      {"r051",
       "request.tools[1].function.name: 'f' is the name of another tool too; names must differ"},
      {"r052", "request.tools[0]: tools of type 'retrieval' are not supported, expected function"},
      {"r053", "request.tools[0]: 'function' is missing, expected an object with a name"},
      {"r054", "request.tools: expected a list of tools, found a string"},
      {"r056",
       "request.tools[0].function.name: 'n::f' is no name of 1 to 128 letters, digits, '_' and "
       "'-'"},
      {"r057",
       "request.tools[0].function.parameters: found a list, expected a JSON schema, an object"},
      {"r058",
       "request.tools[0].function.parameters.type: found 'string', expected \"object\": arguments "
       "are the members of an object"},
      {"r060",
       "request.tool_choice: unknown tool_choice 'sometimes', expected one of none, auto, required "
       "or {\"type\":\"function\",\"function\":{\"name\":...}}"},
      {"r061", "request.tool_choice: no tool of the request is named 'nope'"},
      {"r062",
       "request.tool_choice: a forced tool call leaves no room for thinking; send tool_choice "
       "auto, or thinking {\"type\":\"disabled\"}"},
      {"r063",
       "request.tool_choice: unknown tool_choice 'any', expected one of none, auto, required or "
       "{\"type\":\"function\",\"function\":{\"name\":...}}"},
      {"r064",
       "request.response_format: json_object needs the word 'json' in some message, which tells "
       "the model what to do"},
      {"r065",
       "request.response_format: unknown response format 'xml', expected one of text, json_object, "
       "json_schema"},
      {"r066", "request.response_format: found 'json', expected an object with a type"},
      {"r067",
       "request.response_format: 'json_schema' is missing, expected an object with 'schema'"},
      {"r068",
       "request.reasoning_effort: unknown reasoning_effort 'extreme', expected one of none, "
       "minimal, low, medium, high, xhigh, max, ultra"},
      {"r070",
       "request.reasoning_effort: unknown reasoning_effort '', expected one of none, minimal, low, "
       "medium, high, xhigh, max, ultra"},
      {"r071",
       "request.reasoning_effort: found 'true', expected none, minimal, low, medium, high, xhigh, "
       "max, ultra or an integer from 1 to 100"},
      {"r072",
       "request.thinking: unknown type of thinking 'maybe', expected one of enabled, disabled, "
       "adaptive"},
      {"r073",
       "request.thinking: found 'on', expected {\"type\":\"enabled\"} or {\"type\":\"disabled\"}"},
      {"r074", "request.thinking: 'type' is missing, expected a string"},
      {"r115",
       "request.messages[1].prefix: only the last message can be continued; leave 'prefix' out "
       "here"},
      {"r117", "request.messages[1]: 'prefix' is 'yes', expected true or false"},
  };
  return messages;
}

TEST(ChatRequest, RefusesWhatTheServingLibraryRefuses) {
  int refused = 0;
  for (const Json& row : test::read_json_lines(test::golden_path("text/chat_requests.jsonl"))) {
    const std::string id = test::text_of(row, "id");
    if (row.find("accepted") != nullptr) {
      continue;
    }
    SCOPED_TRACE(id);
    const std::string message = refusal_of(*row.find("request"));
    // An integer effort is our extension.
    if (other_fields().contains(id) || id == "r069") {
      EXPECT_EQ(message, "");
      continue;
    }
    ++refused;
    const auto expected = refusals().find(id);
    EXPECT_EQ(message, expected == refusals().end() ? "" : expected->second);
    EXPECT_NE(message, "");
  }
  EXPECT_EQ(refused, 67);
  EXPECT_EQ(refusals().size(), 67U);
}

// Prompts of accepted bodies that the reference and deepseek-recipe write differently, all for one
// reason: the recipe opens a new assistant turn also behind an assistant message, a system message
// at the start and a reminder.
const std::set<std::string>& other_ends() {
  static const std::set<std::string> ids = {"r032", "r118", "r119", "r120"};
  return ids;
}

TEST(ChatRequest, AcceptsWhatTheServingLibraryAccepts) {
  int accepted = 0;
  for (const Json& row : test::read_json_lines(test::golden_path("text/chat_requests.jsonl"))) {
    if (row.find("accepted") == nullptr) {
      continue;
    }
    const std::string id = test::text_of(row, "id");
    SCOPED_TRACE(id);
    ++accepted;
    const ChatRequest request = request_of(whole_body(row));
    std::string expected = test::text_of(row, "prompt");
    std::string ref = prompt_of(request, EncodingRevision::ref).text;
    std::string recipe = prompt_of(request, EncodingRevision::recipe).text;
    if (expected.ends_with("...")) {
      expected.resize(expected.size() - 3);
      // Of long prompts the recording has the first 60 characters.
      ref.resize(expected.size());
      recipe.resize(expected.size());
    }
    EXPECT_EQ(recipe, expected);
    EXPECT_EQ(ref == expected, !other_ends().contains(id)) << ref;
    const Json& parsing = *row.find("parsing");
    EXPECT_EQ(request.is_json, *parsing.find("parse_json_output")->as_boolean());
    EXPECT_EQ(request.forces_calls, *parsing.find("starts_in_tool_calls")->as_boolean());
  }
  EXPECT_EQ(accepted, 31);
}

// Rows of chat_encode.jsonl in which our prompt under EncodingRevision::ref is not REF's.
//   102, 103: forced calls, which REF does not have; deepseek-recipe's prompt.
//   191 to 196: REF refuses the spelling of the image token in text, the recipe writes it as plain
//   text, and so do we.
// 098 is refused as by the recipe: a strict tool that does not require all its properties.
bool follows_recipe(const std::string& id) {
  return id.starts_with("102_") || id.starts_with("103_") || id.find("_placeholder") != id.npos;
}

// Rows in which our prompt under EncodingRevision::recipe is not the recipe's, but REF's: it would
// lose what the caller sent.
//   097, 099: descriptions and parameters that a tool does not have are not made up.
//   120: an integer of more than 64 bits stays one.
bool never_follows_recipe(const std::string& id) {
  return id.starts_with("097_") || id.starts_with("099_") || id.starts_with("120_");
}

void expect_ids(const Prompt& prompt, const Json& recorded) {
  const std::vector<int64_t> ids(prompt.ids.begin(), prompt.ids.end());
  EXPECT_EQ(ids, test::integers_of(recorded, "ids"));
  const std::vector<Json>& ranges = recorded.find("special_ranges")->items();
  ASSERT_EQ(prompt.special_ranges.size(), ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(prompt.special_ranges[i].begin, ranges[i].items()[0].as_int64());
    EXPECT_EQ(prompt.special_ranges[i].end, ranges[i].items()[1].as_int64());
  }
}

void check_images(const Prompt& prompt, const Json& recorded) {
  const Json none = Json::array();
  const Json* found = recorded.find("images");
  const std::vector<Json>& images = (found == nullptr ? none : *found).items();
  ASSERT_EQ(prompt.images.size(), images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    EXPECT_EQ(prompt.images[i].value, test::text_of(images[i], "url"));
  }
}

TEST(ChatRequest, WritesThePromptsOfTheReference) {
  int rows = 0;
  int as_recipe = 0;
  int as_ref = 0;
  for (const Json& row : test::read_json_lines(test::golden_path("text/chat_encode.jsonl"))) {
    if (row.find("request") == nullptr) {
      continue;
    }
    const std::string id = test::text_of(row, "id");
    SCOPED_TRACE(id);
    ++rows;
    const Json& recipe = *row.find("recipe");
    if (id == "098_tools") {
      EXPECT_NE(recipe.find("error"), nullptr);
      EXPECT_EQ(refusal_of(*row.find("request")),
                "request.tools[0].function.parameters.required: does not name 'b'; a strict tool "
                "requires every property (an optional one can have a type list with null)");
      continue;
    }
    const ChatRequest request = request_of(*row.find("request"));
    const Prompt prompt = prompt_of(request, EncodingRevision::ref);
    const Json& ref = *row.find("ref");
    EXPECT_EQ(prompt.text, test::text_of(follows_recipe(id) ? recipe : ref, "prompt"));
    const Prompt served = prompt_of(request, EncodingRevision::recipe);
    EXPECT_EQ(served.text == test::text_of(recipe, "prompt"), !never_follows_recipe(id))
        << served.text;
    as_recipe += served.text == test::text_of(recipe, "prompt") ? 1 : 0;
    as_ref += ref.find("prompt") != nullptr && prompt.text == test::text_of(ref, "prompt") ? 1 : 0;
    if (!never_follows_recipe(id)) {
      expect_ids(served, recipe);
      check_images(served, recipe);
    }
    if (prompt.text == served.text) {
      EXPECT_EQ(prompt.ids, served.ids);
    }
    const Json& parsing = *recipe.find("parsing");
    EXPECT_EQ(request.is_json, *parsing.find("parse_json_output")->as_boolean());
    EXPECT_EQ(request.forces_calls, *parsing.find("starts_in_tool_calls")->as_boolean());
  }
  EXPECT_EQ(rows, 150);
  EXPECT_EQ(as_recipe, 146);  // of 149
  EXPECT_EQ(as_ref, 141);     // of 143 that REF writes and the recipe accepts
}

}  // namespace
}  // namespace tessera::deepseek_v41
