// Chat over HTTP against the same request to `tessera run`, streamed against whole, and what
// `usage` says.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

// The messages of an item of the evaluation, with pictures as data URLs.
std::string messages_of(const std::string& id) {
  std::string text;
  for (const Json& message : eval_items().at(id).find("messages")->items()) {
    std::string content;
    const Json& blocks = *message.find("content");
    for (const Json& block : blocks.items()) {
      const Json* const image = block.find("image_url");
      content += content.empty() ? "[" : ", ";
      content += image == nullptr ? io::dump_compact(block)
                                  : picture_part(kDemo + "/eval/" + text_of(*image, "url"));
    }
    content = blocks.is_string() ? quoted_json(blocks.text()) : content + "]";
    text += str_cat(text.empty() ? "" : ", ", R"({"role": ")", text_of(message, "role"),
                    R"(", "content": )", content, "}");
  }
  return str_cat("[", text, "]");
}

std::string with_messages(std::string_view messages, std::string_view more) {
  return str_cat(R"({"messages": )", messages, ", ", more, "}");
}

// The numbers of the tokens' log-probabilities, as spelled.
std::vector<std::string> logprobs_of(const Json& list) {
  std::vector<std::string> numbers;
  for (const Json& token : list.items()) {
    numbers.push_back(text_of(token, "logprob"));
  }
  return numbers;
}

void expect_same_answer(const Json& got, const Json& want, size_t choice = 0) {
  const Json* const list = want.find("choices");
  const Json& wanted = list == nullptr ? want : list->items()[choice];
  EXPECT_EQ(content_of(got, choice), text_of(wanted, "content"));
  EXPECT_EQ(finish_reason_of(got, choice), text_of(wanted, "finish_reason"));
  EXPECT_EQ(logprobs_of(*got.find("choices")->items()[choice].find("logprobs")->find("content")),
            logprobs_of(*wanted.find("logprobs")));
  EXPECT_EQ(usage_of(got, "prompt_tokens"), integer_of(want, "prompt_tokens"));
  EXPECT_EQ(usage_of(got, "completion_tokens"), integer_of(want, "completion_tokens"));
  EXPECT_EQ(usage_of(got, "total_tokens"),
            usage_of(got, "prompt_tokens") + usage_of(got, "completion_tokens"));
}

TEST(ServerChat, AnswersAsTheProgramDoes) {
  const TempFolder folder;
  for (const char* id : {"p058", "p056"}) {
    const std::string body =
        with_messages(messages_of(id), R"("temperature": 0, "logprobs": true, "top_logprobs": 0)");
    const Json got = answered(demo_server().post(kChat, body));
    EXPECT_EQ(content_of(got), text_of(eval_items().at(id), "model_answer"));
    expect_same_answer(got, json_of({"run", "--temperature", "0", "--logprobs", "0", "--input",
                                     folder.write("body.json", body)}));
  }
  const Json got = answered(demo_server().post(
      kChat, ask_body("Hello", R"("temperature": 1.5, "top_p": 0.95, "seed": 77, "max_tokens": 40,
                                 "ignore_eos": true, "logprobs": true)")));
  expect_same_answer(got,
                     json_of({"run", "--temperature", "1.5", "--top-p", "0.95", "--seed", "77",
                              "--max-tokens", "40", "--ignore-eos", "--logprobs", "0", "Hello"}));
}

// All recorded answers that another rounding cannot flip, in both languages.
TEST(ServerChat, AnswersTheEvaluation) {
  for (const char* id : {"p004", "p006", "p036", "p040", "p051", "p054", "p055", "p057"}) {
    const Json& item = eval_items().at(id);
    const Json got = answered(demo_server().post(
        kChat, with_messages(messages_of(id), R"("temperature": 0, "model": "tessera-demo")")));
    EXPECT_EQ(content_of(got), text_of(item, "model_answer")) << id;
    EXPECT_EQ(finish_reason_of(got), "stop") << id;
    EXPECT_EQ(usage_of(got, "prompt_tokens"), integer_of(item, "n_prompt_tokens")) << id;
    EXPECT_EQ(usage_of(got, "completion_tokens"),
              static_cast<int64_t>(integers_of(item, "model_answer_ids").size()))
        << id;
  }
}

Json without_cache_counts(Json answer) {
  for (const char* name : {"id", "object", "created", "model", "system_fingerprint"}) {
    std::erase_if(answer.members(), [&](const Json::Member& m) { return m.first == name; });
  }
  const Json* const usage = answer.find("usage");
  if (usage != nullptr && usage->find("prompt_tokens_details") != nullptr) {
    Json copy = *usage;
    Json details = *copy.find("prompt_tokens_details");
    details.set("cached_tokens", Json());
    copy.set("prompt_tokens_details", std::move(details));
    answer.set("usage", std::move(copy));
  }
  return answer;
}

TEST(ServerChat, StreamedIsWholePutApart) {
  constexpr const char* kTool =
      R"({"type": "function",
          "function": {"name": "get_weather", "parameters": {"type": "object"}}})";
  const std::vector<std::string> bodies = {
      with_messages(messages_of("p003"), R"("temperature": 0)"),
      with_messages(messages_of("p054"), R"("temperature": 0, "logprobs": true)"),
      // Many byte tokens: pieces of code points, and bytes that are none.
      ask_body("你好！", R"("temperature": 2, "seed": 3, "ignore_eos": true, "max_tokens": 80)"),
      ask_body("Hello", R"("temperature": 1.2, "seed": -5, "n": 3, "max_tokens": 30,
                           "ignore_eos": true, "logprobs": true, "top_logprobs": 2)"),
      ask_body("Hello", R"("temperature": 0, "stop": ["se sh", "zzz"])"),
      ask_body("Hello", R"("temperature": 0, "max_tokens": 3)"),
      ask_body("Hello", R"("thinking": {"type": "enabled"}, "temperature": 1, "seed": 12,
                           "min_tokens": 24, "max_tokens": 24)"),
      ask_body("Say json.",
               R"("response_format": {"type": "json_object"}, "temperature": 1.3, "seed": 8,
                  "max_tokens": 30, "min_tokens": 20)"),
      ask_body("Weather?", str_cat(R"("temperature": 0, "max_tokens": 30, "tools": [)", kTool,
                                   R"(], "tool_choice": "required",
                                   "thinking": {"type": "disabled"})"))};
  for (size_t i = 0; i < bodies.size(); ++i) {
    const std::string body = bodies[i];
    const std::string streamed = body.substr(0, body.size() - 1) +
                                 R"(, "stream": true, "stream_options": {"include_usage": true}})";
    const HttpFields id = {{"X-Request-Id", str_cat("twice-", i)}};  // ids of calls come from it
    const Json whole = answered(demo_server().post(kChat, body, id));
    const HttpAnswer stream = demo_server().post(kChat, streamed, id);
    EXPECT_EQ(io::dump_compact(without_cache_counts(joined_chat(events_of(stream)))),
              io::dump_compact(without_cache_counts(whole)))
        << body.substr(0, 200);
  }
}

// Pieces come while the model writes, not at the end; without include_usage nothing says "usage".
TEST(ServerChat, StreamsAsItGoes) {
  HttpConnection connection = demo_server().begin(
      kChat,
      ask_body("Hello", R"("stream": true, "ignore_eos": true, "max_tokens": 300, "seed": 1)"));
  const HttpAnswer part = connection.read_until("data: ");
  EXPECT_FALSE(part.is_whole);
  EXPECT_EQ(part.header("Cache-Control"), "no-cache");
  const HttpAnswer all = connection.read();
  EXPECT_GT(all.chunks.size(), 100U);
  EXPECT_EQ(all.body.find("usage"), std::string::npos);
  const Json joined = joined_chat(events_of(all));
  EXPECT_EQ(finish_reason_of(joined), "length");
  EXPECT_TRUE(joined.find("usage")->is_null());
}

TEST(ServerChat, LimitsOfAnswers) {
  const auto ask = [](std::string_view more) {
    return answered(demo_server().post(kChat, ask_body("Hello", more)));
  };
  const Json plain = ask(R"("temperature": 0)");
  const std::string text = content_of(plain);
  const Json cut = ask(R"("temperature": 0, "max_tokens": 3)");
  EXPECT_EQ(usage_of(cut, "completion_tokens"), 3);
  EXPECT_EQ(finish_reason_of(cut), "length");
  EXPECT_TRUE(text.starts_with(content_of(cut)) && content_of(cut) != text) << content_of(cut);
  const Json longer = ask(R"("temperature": 0, "min_tokens": 20, "max_completion_tokens": 25)");
  EXPECT_GE(usage_of(longer, "completion_tokens"), 20);
  EXPECT_TRUE(content_of(longer).starts_with(text)) << content_of(longer);
  EXPECT_EQ(content_of(longer).find("<｜"), std::string::npos) << content_of(longer);
  const Json endless = ask(R"("temperature": 0, "ignore_eos": true, "max_tokens": 25)");
  EXPECT_EQ(usage_of(endless, "completion_tokens"), 25);
  EXPECT_EQ(finish_reason_of(endless), "length");
  const Json biased = ask(R"("temperature": 0, "logit_bias": {"1": 100})");  // the end token
  EXPECT_EQ(content_of(biased), "");
  EXPECT_EQ(usage_of(biased, "completion_tokens"), 1);
}

// Every piece of an answer as a stop string: the text ends right before its first place, whatever
// tokens it spans.
TEST(ServerChat, StopStringsAcrossTokens) {
  for (const char* question : {"Hello", "你好！"}) {
    const std::string text =
        content_of(answered(demo_server().post(kChat, ask_body(question, R"("temperature": 0)"))));
    ASSERT_GT(text.size(), 20U);
    for (size_t begin = 1; begin + 6 <= text.size(); ++begin) {
      const std::string stop = text.substr(begin, 6);
      if (!is_utf8(stop)) {
        continue;
      }
      const std::string more = str_cat(R"("temperature": 0, "stop": [)", quoted_json(stop), "]");
      const Json got = begin % 2 == 0
                           ? answered(demo_server().post(kChat, ask_body(question, more)))
                           : joined_chat(events_of(demo_server().post(
                                 kChat, ask_body(question, str_cat(more, R"(, "stream": true)")))));
      EXPECT_EQ(content_of(got), text.substr(0, text.find(stop))) << stop;
      EXPECT_EQ(finish_reason_of(got), "stop");
    }
  }
}

TEST(ServerChat, ToolsAreShownToTheModel) {
  constexpr const char* kTools =
      R"("tools": [{"type": "function", "function": {"name": "get_weather", "description": "Tells",
         "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])";
  const std::string turns = str_cat(
      R"([{"role": "user", "content": "Weather in Paris?"},)",
      R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",)",
      R"("function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}}]},)",
      R"({"role": "tool", "tool_call_id": "c1", "content": "sunny"}])");
  const Json ids = answered(demo_server().post("/tokenize", with_messages(turns, kTools)));
  const std::string prompt = text_of(
      answered(demo_server().post(
          "/detokenize", str_cat(R"({"tokens": )", io::dump_compact(*ids.find("tokens")), "}"))),
      "prompt");
  for (const char* part : {"get_weather", "city", "Paris", "sunny", "Weather in Paris?"}) {
    EXPECT_NE(prompt.find(part), std::string::npos) << part;
  }
  const std::string forced = str_cat(
      kTools, R"(, "tool_choice": {"type": "function", "function": {"name": "get_weather"}},)",
      R"("thinking": {"type": "disabled"}, "temperature": 0, "max_tokens": 60)");
  const Json got = answered(demo_server().post(kChat, with_messages(turns, forced)));
  const Json& message = *got.find("choices")->items().front().find("message");
  const Json* const calls = message.find("tool_calls");
  EXPECT_EQ(finish_reason_of(got) == "tool_calls", calls != nullptr);
  EXPECT_EQ(content_of(got).find("DSML"), std::string::npos) << content_of(got);
  for (const Json& call : calls == nullptr ? std::vector<Json>() : calls->items()) {
    EXPECT_EQ(text_of(*call.find("function"), "name"), "get_weather");
    EXPECT_TRUE(text_of(call, "id").starts_with("call_"));
  }
}

}  // namespace
}  // namespace tessera::test
