#include "server/api_answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/api_test.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

Choice choice_of(Answer answer, std::string text, std::vector<int32_t> ids) {
  Choice choice;
  choice.answer = std::move(answer);
  choice.text = std::move(text);
  choice.ids = std::move(ids);
  return choice;
}

Answer answer_of(std::string reasoning, std::string content, std::vector<AnsweredCall> calls = {}) {
  return {std::move(reasoning), std::move(content), std::move(calls)};
}

Result result_of(std::vector<Choice> choices) {
  Result result;
  result.choices = std::move(choices);
  result.prompt_tokens = 12;
  result.cached_tokens = 4;
  result.image_tokens = 6;
  return result;
}

TEST(ApiWire, OneLineForEveryReader) {
  const std::string text = "a\xc2\x85\xe2\x80\xa8\xe2\x80\xa9好\n\r\x0b\x1c\u00e9\xe2\x80\xa7";
  EXPECT_EQ(wire_text(io::Json::string(text)),
            "\"a\\u0085\\u2028\\u2029好\\n\\r\\u000b\\u001c\u00e9\xe2\x80\xa7\"");
  EXPECT_EQ(io::parse_json(wire_text(io::Json::string(text)), "t").text(), text);
  EXPECT_EQ(sse_event(io::Json::object({{"a", io::Json()}})), "data: {\"a\":null}\n\n");
}

TEST(ApiWire, ReadableText) {
  EXPECT_EQ(readable_text("好a"), "好a");
  EXPECT_EQ(readable_text("\xe4\xbd"), "\uFFFD");
  EXPECT_EQ(readable_text("a\x80\x80"
                          "b\xff"),
            "a\uFFFDb\uFFFD");
  EXPECT_EQ(readable_text(""), "");
}

TEST(ApiAnswer, Chat) {
  EXPECT_EQ(wire_text(chat_completion_json(
                test::form(),
                result_of({choice_of(answer_of("", "Hello 你"), "Hello 你", {0, 1, 2, 3, 4, 8})}))),
            R"({"id":"chatcmpl-r1","object":"chat.completion","created":1700000000,"model":"m",)"
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello 你"},)"
            R"("logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,)"
            R"("completion_tokens":6,"total_tokens":18,"prompt_tokens_details":)"
            R"({"cached_tokens":4,"image_tokens":6},"completion_tokens_details":)"
            R"({"reasoning_tokens":0}},"system_fingerprint":"fp"})");
}

TEST(ApiAnswer, ReasoningAndCalls) {
  Result result =
      result_of({choice_of(answer_of("think", "", {{"f", "", "{\"a\": 1}"}, {"g", "n", "{}"}}),
                           "\nthink</think>", {7, 9, 6, 2, 8}),
                 choice_of(answer_of("", "Hello"), "Hello", {0, 1})});
  result.is_thinking = true;
  result.choices[0].finish_reason = FinishReason::tool_calls;
  result.choices[1].finish_reason = FinishReason::length;
  const io::Json json = chat_completion_json(test::form(), result);
  const std::vector<io::Json>& choices = json.find("choices")->items();
  EXPECT_EQ(wire_text(choices[0]),
            R"({"index":0,"message":{"role":"assistant","content":null,)"
            R"("reasoning_content":"think","tool_calls":[{"id":"call_r1_0_0","type":"function",)"
            R"("function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"call_r1_0_1",)"
            R"("type":"function","namespace":"n","function":{"name":"g","arguments":"{}"}}]},)"
            R"("logprobs":null,"finish_reason":"tool_calls"})");
  EXPECT_EQ(wire_text(choices[1]),
            R"({"index":1,"message":{"role":"assistant","content":"Hello",)"
            R"("reasoning_content":""},"logprobs":null,"finish_reason":"length"})");
  EXPECT_EQ(wire_text(*json.find("usage")->find("completion_tokens_details")),
            R"({"reasoning_tokens":2})");
}

TEST(ApiAnswer, ContentBesideCallsIsKept) {
  const Result result =
      result_of({choice_of(answer_of("", "Look.", {{"f", "", "{}"}}), "Look.", {0})});
  const io::Json json = chat_completion_json(test::form(), result);
  const io::Json& message = *json.find("choices")->items()[0].find("message");
  EXPECT_EQ(message.find("content")->text(), "Look.");
  EXPECT_EQ(message.find("tool_calls")->items().size(), 1U);
  EXPECT_EQ(message.find("reasoning_content"), nullptr);
}

TEST(ApiAnswer, ReasoningTokens) {
  const auto count = [](Answer answer, std::string text, std::vector<int32_t> ids) {
    return reasoning_tokens(test::form(),
                            choice_of(std::move(answer), std::move(text), std::move(ids)));
  };
  EXPECT_EQ(count(answer_of("", "Hello"), "Hello", {0, 1}), 0);
  EXPECT_EQ(count(answer_of("Hello", ""), "Hello", {0, 1}), 2);
  EXPECT_EQ(count(answer_of("你", "Hello"), "你</think>Hello", {3, 4, 6, 0, 1}), 2);
  EXPECT_EQ(count(answer_of("think", ""), "\n\nthink</think>", {7, 7, 9, 6}), 3);
  EXPECT_EQ(count(answer_of("好 ", ""), "\n\n好 </think>", {7, 7, 5, 2, 6}), 4);
}

TEST(ApiAnswer, FinishReasons) {
  Choice choice;
  const std::vector<std::array<std::string_view, 2>> expected = {
      {"stop", "stop"}, {"length", "length"}, {"tool_calls", "stop"}, {"length", "length"}};
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length,
                                    FinishReason::tool_calls, FinishReason::cancelled}) {
    choice.finish_reason = reason;
    EXPECT_EQ(chat_finish_reason(choice), expected[static_cast<size_t>(reason)][0]);
    EXPECT_EQ(text_finish_reason(choice), expected[static_cast<size_t>(reason)][1]);
  }
}

// "你好" in three tokens, of which the first two are no UTF-8 by themselves.
Choice chinese() {
  Choice choice = choice_of(answer_of("", "你好"), "你好", {3, 4, 5});
  choice.logprobs = {{{3, -0.5}, {{3, -0.5}, {0, -1.25}}},
                     {{4, 0}, {{4, 0}}},
                     {{5, -std::numeric_limits<double>::infinity()}, {}}};
  return choice;
}

TEST(ApiAnswer, ChatLogprobs) {
  AnswerForm form = test::form();
  EXPECT_TRUE(chat_logprobs_json(form, chinese()).is_null());
  form.has_logprobs = true;
  EXPECT_EQ(wire_text(chat_logprobs_json(form, chinese())),
            "{\"content\":[{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[228,189],"
            "\"top_logprobs\":[{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[228,189]},"
            "{\"token\":\"Hel\",\"logprob\":-1.25,\"bytes\":[72,101,108]}]},"
            "{\"token\":\"\uFFFD\",\"logprob\":0.0,\"bytes\":[160],\"top_logprobs\":"
            "[{\"token\":\"\uFFFD\",\"logprob\":0.0,\"bytes\":[160]}]},"
            "{\"token\":\"好\",\"logprob\":-9999.0,\"bytes\":[229,165,189],"
            "\"top_logprobs\":[]}]}");
}

TEST(ApiAnswer, TextLogprobs) {
  AnswerForm form = test::form();
  form.has_logprobs = true;
  EXPECT_EQ(wire_text(text_logprobs_json(form, chinese())),
            R"({"tokens":["bytes:\\xe4\\xbd","bytes:\\xa0","好"],)"
            R"("token_logprobs":[-0.5,0.0,-9999.0],)"
            R"("top_logprobs":[{"bytes:\\xe4\\xbd":-0.5,"Hel":-1.25},{"bytes:\\xa0":0.0},{}],)"
            R"("text_offset":[0,1,1]})");
}

TEST(ApiAnswer, TextCompletion) {
  AnswerForm form = test::form();
  form.echo = "从前";
  EXPECT_EQ(wire_text(text_completion_json(
                form, result_of({choice_of(answer_of("", " Hello"), " Hello", {2, 0, 1})}))),
            R"({"id":"cmpl-r1","object":"text_completion","created":1700000000,"model":"m",)"
            R"("choices":[{"index":0,"text":"从前 Hello","logprobs":null,)"
            R"("finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3,)"
            R"("total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"image_tokens":6},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"fp"})");
}

}  // namespace
}  // namespace tessera::server
