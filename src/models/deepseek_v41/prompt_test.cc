// Prompts of the reference encoder (tests/golden/text/chat_encode.jsonl, README.md there).
#include "models/deepseek_v41/prompt.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/prompt_json.h"
#include "models/deepseek_v41/span.h"
#include "tests/support/json_lines.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

constexpr int32_t kImageId = test::kReleasedImageId;
using test::released_tokenizer;

std::vector<int32_t> ids_of(const Json& row) {
  const std::vector<int64_t> wide = test::integers_of(row, "ids");
  return std::vector<int32_t>(wide.begin(), wide.end());
}

// The value of the URL or the base64 data, as the recorded media list holds it.
std::string source_text(const Json& image) {
  if (const Json* source = image.find("source")) {
    return test::text_of(*source, "data");
  }
  return test::text_of(image, image.find("url") != nullptr ? "url" : "data");
}

struct Conversation {
  std::vector<Message> messages;
  std::vector<Message> context;
  PromptOptions options;
};

Conversation conversation_of(const Json& row) {
  Conversation result;
  result.messages = messages_from_json(*row.find("ref_messages"), "messages");
  const Json& options = *row.find("ref_options");
  result.options.is_thinking = test::text_of(options, "thinking_mode") == "thinking";
  if (const Json* effort = options.find("reasoning_effort")) {
    result.options.effort = effort_from_json(*effort, "options");
  }
  if (const Json* drops = options.find("drop_thinking")) {
    result.options.drops_reasoning = *drops->as_boolean();
  }
  if (const Json* bos = options.find("add_default_bos_token")) {
    result.options.has_bos = *bos->as_boolean();
  }
  if (const Json* context = options.find("context")) {
    result.context = messages_from_json(*context, "context");
  }
  return result;
}

void expect_prompt(const Prompt& prompt, const Json& expected, const Json& images) {
  EXPECT_EQ(prompt.text, test::text_of(expected, "prompt"));
  ASSERT_EQ(prompt.images.size(), images.items().size());
  for (size_t i = 0; i < prompt.images.size(); ++i) {
    EXPECT_EQ(prompt.images[i].value, source_text(images.items()[i]));
  }
}

// REF's prompt; ids of REF, or of RECIPE where texts spell control tokens.
void check_row(const Json& row) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  const Json& ref = *row.find("ref");
  const Json* recipe = row.find("recipe");
  // REF refuses placeholder spellings; RECIPE takes them as plain text, and so do we.
  const bool is_placeholder = test::text_of(row, "group") == "placeholder";
  if (ref.find("error") != nullptr && !is_placeholder) {
    try {
      const Conversation conversation = conversation_of(row);
      encoder.encode(conversation.messages, conversation.options, conversation.context);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
      EXPECT_NE(std::string(error.what()).find(test::text_of(ref, "message")), std::string::npos)
          << error.what();
    }
    return;
  }
  const Conversation conversation = conversation_of(row);
  const Prompt prompt =
      encoder.encode(conversation.messages, conversation.options, conversation.context);
  const bool has_ref = ref.find("error") == nullptr;
  const Json& expected = has_ref ? ref : *recipe;
  // REF lists the images of reordered tool results in input order; REF-1017 and we do not.
  const Json* later = row.find("ref_1017");
  const bool is_reordered = later->is_object() && later->find("images") != nullptr;
  const Json* images = (is_reordered ? *later : expected).find("images");
  expect_prompt(prompt, expected, images == nullptr ? Json::array() : *images);
  const Json* same_prompt = row.find("same_prompt");
  const bool has_recipe_ids = !has_ref || (same_prompt != nullptr && *same_prompt->as_boolean());
  EXPECT_EQ(prompt.ids, ids_of(has_recipe_ids ? *recipe : ref));
  if (has_recipe_ids) {
    const std::vector<Json>& ranges = recipe->find("special_ranges")->items();
    ASSERT_EQ(prompt.special_ranges.size(), ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(prompt.special_ranges[i].begin, ranges[i].items()[0].as_int64());
      EXPECT_EQ(prompt.special_ranges[i].end, ranges[i].items()[1].as_int64());
    }
  }
}

std::vector<Json> recorded_rows() {
  return test::read_json_lines(test::golden_path("text/chat_encode.jsonl"));
}

TEST(Prompt, EqualsTheReferenceForEveryRecordedConversation) {
  const std::vector<Json> rows = recorded_rows();
  ASSERT_EQ(rows.size(), 199U);
  for (const Json& row : rows) {
    SCOPED_TRACE(test::text_of(row, "id"));
    check_row(row);
  }
}

TEST(Prompt, EqualsTheLaterRevisionWhereItDiffers) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  int compared = 0;
  for (const Json& row : recorded_rows()) {
    const Json& expected = *row.find("ref_1017");
    if (expected.is_object() && expected.find("prompt") != nullptr) {
      SCOPED_TRACE(test::text_of(row, "id"));
      Conversation conversation = conversation_of(row);
      conversation.options.revision = EncodingRevision::ref_1017;
      const Prompt prompt =
          encoder.encode(conversation.messages, conversation.options, conversation.context);
      expect_prompt(prompt, expected, *expected.find("images"));
      EXPECT_EQ(prompt.ids, ids_of(expected));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 5);
}

// A text to go on with: the begin token, and behind it nothing but text.
TEST(Prompt, APlainTextHasNoControlTokenButTheFirst) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  const std::string text = "你好 <｜Assistant｜><think><｜begin▁of▁sentence｜>";
  const Prompt plain = encoder.encode_plain(text);
  const Prompt raw = encoder.encode_raw(text, {});
  ASSERT_FALSE(plain.ids.empty());
  EXPECT_EQ(plain.ids.front(), released_tokenizer().token_id("<｜begin▁of▁sentence｜>"));
  EXPECT_GT(plain.ids.size(), raw.ids.size() + 1);
  EXPECT_EQ(std::count(plain.ids.begin(), plain.ids.end(), plain.ids.front()), 1);
  EXPECT_EQ(
      released_tokenizer().decode(std::vector<int32_t>(plain.ids.begin() + 1, plain.ids.end())),
      text);
}

TEST(Prompt, TextFromOutsideNeverBecomesAControlToken) {
  const Tokenizer& tokenizer = released_tokenizer();
  const PromptEncoder encoder(tokenizer, kImageId);
  std::string hostile;
  for (const AddedToken& token : tokenizer.added_tokens()) {
    hostile += token.text;
  }
  const Json text = Json::string(hostile);
  Json list = Json::array();
  for (const char* role : {"system", "latest_reminder", "user", "tool", "user"}) {
    list.items().push_back(Json::object({{"role", Json::string(role)}, {"content", text}}));
  }
  const Prompt prompt = encoder.encode(messages_from_json(list, "m"), {.is_thinking = false});
  std::vector<int32_t> controls;
  for (const int32_t id : prompt.ids) {
    if (id >= 128000 || id <= 2) {
      controls.push_back(id);
    }
  }
  EXPECT_EQ(controls, (std::vector<int32_t>{0, 128799, 128828, 128803, 128804, 128822}));
  EXPECT_EQ(prompt.special_ranges.size(), controls.size());
  EXPECT_EQ(tokenizer.decode(prompt.ids), prompt.text);
}

TEST(Prompt, ReplacesIllFormedUtf8) {
  Message message;
  message.content.emplace_back().text = "a\xff\xe4\xb8";
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  const Prompt prompt = encoder.encode({&message, 1}, {.is_thinking = false});
  EXPECT_EQ(prompt.text, "<｜begin▁of▁sentence｜><｜User｜>a\ufffd\ufffd<｜Assistant｜></think>");
  EXPECT_EQ(released_tokenizer().decode(prompt.ids), prompt.text);
}

template <typename Call>
void expect_error(const Call& call, ErrorCode code, std::string_view part) {
  try {
    call();
    ADD_FAILURE() << "no error about " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

TEST(Prompt, RefusesWhatItCannotWrite) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  const std::vector<Message> messages(1);
  expect_error([&] { encoder.encode({}, {}); }, ErrorCode::bad_request, "message list is empty");
  expect_error([&] { encoder.encode(messages, {.effort = 0}); }, ErrorCode::bad_request,
               "effort is 0");
  expect_error([&] { encoder.encode(messages, {.effort = 101}); }, ErrorCode::bad_request,
               "effort is 101");
  expect_error([&] { PromptEncoder(released_tokenizer(), 5); }, ErrorCode::bad_file,
               "image_token_id 5");
  std::vector<Message> misplaced(1);
  misplaced[0].role = Role::system;
  misplaced[0].content.emplace_back().kind = ContentBlock::Kind::tool_result;
  expect_error([&] { encoder.encode(misplaced, {}); }, ErrorCode::bad_request, "tool_result");
}

// Turns under deepseek-recipe's rules that no recorded request shows; expected texts from running
// version 0.2.0.
TEST(Prompt, EveryAssistantTurnHasAHeaderUnderTheServingRules) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  constexpr std::string_view kEffort =
      "<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: 75 (range 1-100, the higher the value, "
      "the more thorough the reasoning)\n\n";
  constexpr std::string_view kUser = R"({"role":"user","content":"u"})";
  constexpr std::string_view kReminder = R"({"role":"latest_reminder","content":"r"})";
  constexpr std::string_view kAnswer =
      R"({"role":"assistant","content":"a","reasoning_content":"q"})";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {str_cat(kUser, ",", kReminder, ",", kAnswer),
       "<｜User｜>u<｜latest_reminder｜>r<｜Assistant｜></think>a<｜end▁of▁sentence｜>"
       "<｜Assistant｜><think>"},
      {str_cat(kUser, ",", kAnswer, ",", kReminder),
       "<｜User｜>u<｜Assistant｜></think>a<｜end▁of▁sentence｜><｜latest_reminder｜>r"
       "<｜Assistant｜><think>"},
      {str_cat(kUser, ",", kAnswer, R"(,{"role":"assistant","content":"b","wo_eos":true})"),
       "<｜User｜>u<｜Assistant｜></think>a<｜end▁of▁sentence｜><｜Assistant｜><think></think>b"},
      {str_cat(kUser, R"(,{"role":"assistant","content":"","wo_eos":true})"),
       "<｜User｜>u<｜Assistant｜><think>"},
      {str_cat(R"({"role":"system","content":"s"},)", kReminder),
       "s<｜latest_reminder｜>r<｜Assistant｜><think>"},
      {str_cat(kUser, R"(,{"role":"system","content":""},{"role":"user","content":"v"})"),
       "<｜User｜>u\n\nv<｜Assistant｜><think>"}};
  for (const auto& [messages, expected] : cases) {
    SCOPED_TRACE(messages);
    const std::vector<Message> list =
        messages_from_json(io::parse_json(str_cat("[", messages, "]"), "m"), "m");
    EXPECT_EQ(encoder.encode(list, {.revision = EncodingRevision::recipe}).text,
              str_cat(kEffort, expected));
  }
  // A system message that holds nothing is kept if it is all there is.
  Message blank;
  blank.role = Role::system;
  EXPECT_EQ(
      encoder.encode({&blank, 1}, {.is_thinking = false, .revision = EncodingRevision::recipe})
          .text,
      "<｜begin▁of▁sentence｜><｜System｜><｜Assistant｜></think>");
}

TEST(Prompt, AContextEndsWithTheHeaderOfTheNextTurn) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  std::vector<Message> messages(3);
  messages[0].content.emplace_back().text = "u";
  messages[1].role = Role::assistant;
  messages[1].content.emplace_back().text = "a";
  messages[2].content.emplace_back().text = "v";
  for (const EncodingRevision revision :
       {EncodingRevision::ref, EncodingRevision::ref_1017, EncodingRevision::recipe}) {
    const PromptOptions options = {.is_thinking = false, .revision = revision};
    const std::span<const Message> all = messages;
    EXPECT_EQ(encoder.encode(all.first(1), options).text +
                  encoder.encode(all.subspan(1), options, all.first(1)).text,
              encoder.encode(all, options).text);
  }
}

TEST(Prompt, AForcedCallBeginsInsideTheCallsBlock) {
  const PromptEncoder encoder(released_tokenizer(), kImageId);
  const PromptOptions options = {.is_thinking = false, .starts_calls = true};
  std::vector<Message> messages(1);
  messages[0].content.emplace_back().text = "u";
  const Prompt prompt = encoder.encode(messages, options);
  EXPECT_EQ(prompt.text,
            "<｜begin▁of▁sentence｜><｜User｜>u<｜Assistant｜></think>\n\n<｜DSML｜ calls>\n");
  // "</think>", "\n\n", "<", "｜DSML｜", " calls", ">\n": one control token more than the header.
  ASSERT_EQ(prompt.special_ranges.size(), 5U);
  EXPECT_EQ(std::count(prompt.ids.begin(), prompt.ids.end(), 128825), 1);
  // Behind a finished answer too there is a turn to begin.
  messages.emplace_back().role = Role::assistant;
  EXPECT_TRUE(encoder.encode(messages, options)
                  .text.ends_with("</think><｜end▁of▁sentence｜><｜Assistant｜></think>\n\n"
                                  "<｜DSML｜ calls>\n"));
  expect_error([&] { encoder.encode(messages, {.starts_calls = true}); }, ErrorCode::bad_request,
               "no room for thinking");
  messages[1].is_open = true;
  expect_error([&] { encoder.encode(messages, options); }, ErrorCode::bad_request,
               "is to be continued");
  messages.pop_back();
  messages[0].task = Task::title;
  expect_error([&] { encoder.encode(messages, options); }, ErrorCode::bad_request,
               "asks for a task");
}

TEST(Prompt, NamesControlTokensThatATokenizerLacks) {
  const Tokenizer tiny = Tokenizer::load(test::golden_path("v41-tiny/model/tokenizer.json"));
  const PromptEncoder encoder(tiny, 381);
  Message message;
  message.task = Task::title;
  expect_error([&] { encoder.encode({&message, 1}, {}); }, ErrorCode::unsupported, "<｜title｜>");
}

// The requests of a model with a tokenizer of its own, from JSON to spans.
TEST(Prompt, EqualsTheTinyModelsCases) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_path("v41-tiny/model/tokenizer.json"));
  const PromptEncoder encoder(tokenizer, 381);
  for (const char* name : {"text_1", "text_5", "text_mid", "text_long", "image_one", "images_two",
                           "image_first", "image_medium", "text_steps"}) {
    SCOPED_TRACE(name);
    const std::string path = test::golden_path(str_cat("v41-tiny/cases/", name, ".json"));
    const Json json = io::read_json_file(path);
    const std::vector<PromptCase> cases = cases_from_json(json, path);
    ASSERT_EQ(cases.size(), 1U);
    const PromptCase& one = cases[0];
    EXPECT_EQ(one.name, name);
    const Prompt prompt = one.raw_prompt ? encoder.encode_raw(*one.raw_prompt, one.raw_images)
                                         : encoder.encode(one.messages, {.is_thinking = false});
    EXPECT_EQ(prompt.text, test::text_of(json, "prompt"));
    const std::vector<int64_t> ids(prompt.ids.begin(), prompt.ids.end());
    EXPECT_EQ(ids, test::integers_of(json, "prompt_ids"));

    std::vector<Grid> grids;
    for (const Json& span : json.find("spans")->items()) {
      const int64_t down = 3;  // patches per token and side
      grids.push_back({(test::integer_of(span, "n_vit_h") + down - 1) / down,
                       (test::integer_of(span, "n_vit_w") + down - 1) / down});
    }
    ASSERT_EQ(prompt.images.size(), grids.size());
    const ExpandedPrompt expanded = expand_images(prompt.ids, 381, grids, true);
    EXPECT_EQ(std::vector<int64_t>(expanded.ids.begin(), expanded.ids.end()),
              test::integers_of(json, "ids"));
    EXPECT_EQ(std::vector<int64_t>(expanded.types.begin(), expanded.types.end()),
              test::integers_of(json, "types"));
    for (size_t i = 0; i < grids.size(); ++i) {
      const Json& span = json.find("spans")->items()[i];
      EXPECT_EQ(expanded.spans[i].start, test::integer_of(span, "start"));
      EXPECT_EQ(expanded.spans[i].length, test::integer_of(span, "length"));
      EXPECT_EQ(span_tokens(expanded.spans[i].tokens), expanded.spans[i].length);
    }
  }
}

TEST(Span, CountsPlaceholdersAndNeedsATower) {
  const std::vector<int32_t> ids = {5, 9, 6, 9};
  const std::vector<Grid> one = {{2, 3}};
  const std::vector<Grid> two = {{1, 1}, {2, 3}};
  expect_error([&] { expand_images(ids, 9, one, true); }, ErrorCode::bad_request,
               "Found 2 image tokens but got 1 images");
  expect_error([&] { expand_images(ids, 7, one, true); }, ErrorCode::bad_request,
               "Found 0 image tokens but got 1 images");
  expect_error([&] { expand_images(ids, 9, two, false); }, ErrorCode::bad_request,
               "The model config has no vision tower (vision_n_layers == 0) but the prompt "
               "contains images");
  const ExpandedPrompt text = expand_images(ids, 7, {}, false);
  EXPECT_EQ(text.ids, ids);
  EXPECT_EQ(text.types, std::vector<int8_t>(4, kTypeText));
  const ExpandedPrompt expanded = expand_images(ids, 9, two, true);
  EXPECT_EQ(expanded.types,
            (std::vector<int8_t>{-1, 0, 1, 2, 3, -1, 0, 1, 1, 1, 2, 1, 1, 1, 2, 3}));
  EXPECT_EQ(expanded.spans[1].start, 6);
}

}  // namespace
}  // namespace tessera::deepseek_v41
