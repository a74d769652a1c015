#include "server/api_stream.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/api_test.h"

namespace tessera::server {
namespace {

using Kind = AnswerDelta::Kind;

RequestEvent delta(Kind kind, std::string text, int64_t call = 0, int64_t choice = 0) {
  RequestEvent event;
  event.choice = choice;
  event.delta = {kind, std::move(text), call};
  return event;
}

// A chunk of a chat with these members inside its one choice.
std::string chat_chunk(std::string_view choice, std::string_view usage = "") {
  return str_cat(R"(data: {"id":"chatcmpl-r1","object":"chat.completion.chunk",)",
                 R"("created":1700000000,"model":"m","system_fingerprint":"fp","choices":[{)",
                 choice, "}]", usage, "}\n\n");
}

// A delta that ends nothing.
std::string chat_delta(int choice, std::string_view value, std::string_view usage = "") {
  return chat_chunk(str_cat(R"("index":)", choice, R"(,"delta":)", value,
                            R"(,"logprobs":null,"finish_reason":null)"),
                    usage);
}

std::string chat_end(int choice, std::string_view reason, std::string_view usage = "") {
  return chat_chunk(str_cat(R"("index":)", choice, R"(,"delta":{},"logprobs":null,)",
                            R"("finish_reason":")", reason, "\""),
                    usage);
}

std::string text_chunk(std::string_view text, std::string_view reason = "null",
                       std::string_view logprobs = "null") {
  return str_cat(R"(data: {"id":"cmpl-r1","object":"text_completion","created":1700000000,)",
                 R"("model":"m","system_fingerprint":"fp","choices":[{"index":0,"text":)", text,
                 R"(,"logprobs":)", logprobs, R"(,"finish_reason":)", reason, "}]}\n\n");
}

constexpr std::string_view kRole = R"({"role":"assistant","content":""})";
constexpr std::string_view kDone = "data: [DONE]\n\n";

Result ended(std::vector<FinishReason> reasons) {
  Result result;
  for (const FinishReason reason : reasons) {
    result.choices.emplace_back().finish_reason = reason;
  }
  result.prompt_tokens = 5;
  return result;
}

TEST(ApiStream, ReasoningThenContent) {
  AnswerStream stream(AnswerStream::Kind::chat, test::form(), 1);
  EXPECT_EQ(stream.event(delta(Kind::reasoning, "想")),
            chat_delta(0, kRole) + chat_delta(0, R"({"reasoning_content":"想"})"));
  EXPECT_EQ(stream.event(delta(Kind::content, "你")), chat_delta(0, R"({"content":"你"})"));
  EXPECT_EQ(stream.event(delta(Kind::content, "\xe2\x80\xa8\n")),
            chat_delta(0, R"({"content":"\u2028\n"})"));
  EXPECT_EQ(stream.end(ended({FinishReason::length})), str_cat(chat_end(0, "length"), kDone));
}

TEST(ApiStream, NothingBeforeTheAnswer) {
  AnswerStream stream(AnswerStream::Kind::chat, test::form(), 1);
  RequestEvent event;
  event.kind = RequestEvent::Kind::progress;
  event.text = "prompt";
  EXPECT_EQ(stream.event(event), "");
  event.kind = RequestEvent::Kind::notice;
  EXPECT_EQ(stream.event(event), "");
  // An answer without any text.
  EXPECT_EQ(stream.end(ended({FinishReason::stop})),
            str_cat(chat_delta(0, kRole), chat_end(0, "stop"), kDone));
}

TEST(ApiStream, ToolCalls) {
  AnswerStream stream(AnswerStream::Kind::chat, test::form(), 1);
  EXPECT_EQ(stream.event(delta(Kind::call_name, "f", 0)),
            chat_delta(0, kRole) +
                chat_delta(0, R"({"tool_calls":[{"index":0,"id":"call_r1_0_0","type":"function",)"
                              R"("function":{"name":"f","arguments":""}}]})"));
  EXPECT_EQ(stream.event(delta(Kind::call_arguments, "{\"城\": ", 0)),
            chat_delta(0, R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"城\": "}}]})"));
  EXPECT_EQ(stream.event(delta(Kind::call_arguments, "1}", 0)),
            chat_delta(0, R"({"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]})"));
  EXPECT_EQ(stream.event(delta(Kind::call_name, "n::g", 1)),
            chat_delta(0, R"({"tool_calls":[{"index":1,"id":"call_r1_0_1","type":"function",)"
                          R"("namespace":"n","function":{"name":"g","arguments":""}}]})"));
  EXPECT_EQ(stream.end(ended({FinishReason::tool_calls})),
            str_cat(chat_end(0, "tool_calls"), kDone));
}

TEST(ApiStream, ChoicesEachHaveTheirRole) {
  AnswerStream stream(AnswerStream::Kind::chat, test::form(), 3);
  EXPECT_EQ(stream.event(delta(Kind::content, "b", 0, 1)),
            chat_delta(1, kRole) + chat_delta(1, R"({"content":"b"})"));
  EXPECT_EQ(stream.event(delta(Kind::content, "a", 0, 0)),
            chat_delta(0, kRole) + chat_delta(0, R"({"content":"a"})"));
  EXPECT_EQ(stream.event(delta(Kind::call_name, "f", 0, 1)),
            chat_delta(1, R"({"tool_calls":[{"index":0,"id":"call_r1_1_0","type":"function",)"
                          R"("function":{"name":"f","arguments":""}}]})"));
  EXPECT_EQ(
      stream.end(ended({FinishReason::stop, FinishReason::tool_calls, FinishReason::cancelled})),
      str_cat(chat_end(0, "stop"), chat_end(1, "tool_calls"), chat_delta(2, kRole),
              chat_end(2, "length"), kDone));
}

TEST(ApiStream, UsageComesLast) {
  AnswerForm form = test::form();
  form.includes_usage = true;
  AnswerStream stream(AnswerStream::Kind::chat, form, 1);
  constexpr std::string_view kNone = R"(,"usage":null)";
  EXPECT_EQ(stream.event(delta(Kind::content, "Hello")),
            chat_delta(0, kRole, kNone) + chat_delta(0, R"({"content":"Hello"})", kNone));
  Result result = ended({FinishReason::stop});
  result.choices[0].ids = {0, 1};
  EXPECT_EQ(stream.end(result),
            str_cat(chat_end(0, "stop", kNone),
                    R"(data: {"id":"chatcmpl-r1","object":"chat.completion.chunk",)",
                    R"("created":1700000000,"model":"m","system_fingerprint":"fp","choices":[],)",
                    R"("usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)",
                    R"("prompt_tokens_details":{"cached_tokens":0,"image_tokens":0},)",
                    R"("completion_tokens_details":{"reasoning_tokens":0}}})", "\n\n", kDone));
}

TEST(ApiStream, LogprobsComeWithTheEnd) {
  AnswerForm form = test::form();
  form.has_logprobs = true;
  AnswerStream stream(AnswerStream::Kind::chat, form, 1);
  EXPECT_EQ(stream.event(delta(Kind::content, "Hel")),
            chat_delta(0, kRole) + chat_delta(0, R"({"content":"Hel"})"));
  Result result = ended({FinishReason::length});
  result.choices[0].logprobs = {{{0, -0.25}, {}}};
  EXPECT_EQ(stream.end(result),
            str_cat(chat_chunk(R"("index":0,"delta":{},"logprobs":{"content":[{"token":"Hel",)"
                               R"("logprob":-0.25,"bytes":[72,101,108],"top_logprobs":[]}]},)"
                               R"("finish_reason":"length")"),
                    kDone));
}

TEST(ApiStream, Text) {
  AnswerForm form = test::form();
  form.echo = "从";
  form.has_logprobs = true;
  AnswerStream stream(AnswerStream::Kind::text, form, 1);
  EXPECT_EQ(stream.event(delta(Kind::content, "a")), text_chunk("\"从\"") + text_chunk("\"a\""));
  EXPECT_EQ(stream.event(delta(Kind::call_name, "f")), "");
  EXPECT_EQ(stream.event(delta(Kind::content, "\u0085")), text_chunk("\"\\u0085\""));
  EXPECT_EQ(stream.end(ended({FinishReason::tool_calls})),
            str_cat(text_chunk("\"\"", "\"stop\"",
                               R"({"tokens":[],"token_logprobs":[],"top_logprobs":[],)"
                               R"("text_offset":[]})"),
                    kDone));
}

TEST(ApiStream, FailureIsAnEvent) {
  const AnswerStream stream(AnswerStream::Kind::chat, test::form(), 1);
  EXPECT_EQ(stream.fail(ApiError(ApiFault::internal, "bad")),
            str_cat(R"(data: {"error":{"message":"bad","type":"server_error","param":null,)",
                    R"("code":"internal_error"}})", "\n\n", kDone));
}

}  // namespace
}  // namespace tessera::server
