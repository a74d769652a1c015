// POST /v1/completions, /tokenize and /detokenize.
#include <gtest/gtest.h>

#include <string>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

std::string prompt_body(std::string_view prompt, std::string_view more = {}) {
  return str_cat(R"({"prompt": )", quoted_json(prompt), more.empty() ? "" : ", ", more, "}");
}

Json complete(std::string_view prompt, std::string_view more) {
  return answered(demo_server().post(kCompletions, prompt_body(prompt, more)));
}

std::string text_of_choice(const Json& answer, size_t choice = 0) {
  return text_of(answer.find("choices")->items().at(choice), "text");
}

constexpr const char* kShort = R"("temperature": 0, "max_tokens": 8, "ignore_eos": true)";

TEST(ServerCompletions, EchoStopAndStream) {
  const Json plain = complete("Hello", kShort);
  const std::string text = text_of_choice(plain);
  EXPECT_EQ(text_of(plain, "object"), "text_completion");
  EXPECT_EQ(usage_of(plain, "completion_tokens"), 8);
  const Json echo = complete("Hello", str_cat(kShort, R"(, "echo": true)"));
  EXPECT_EQ(text_of_choice(echo), "Hello" + text);
  const std::string stop = text.substr(3, 5);
  const Json stopped = complete("Hello", str_cat(kShort, R"(, "stop": )", quoted_json(stop)));
  EXPECT_EQ(text_of_choice(stopped), text.substr(0, text.find(stop)));
  EXPECT_EQ(finish_reason_of(stopped), "stop");
  const HttpAnswer streamed = demo_server().post(
      kCompletions, prompt_body("Hello", str_cat(kShort, R"(, "stream": true, "echo": true,
                                "n": 2, "stream_options": {"include_usage": true})")));
  const Json joined = joined_text(events_of(streamed));
  EXPECT_EQ(text_of_choice(joined, 0), "Hello" + text);
  EXPECT_EQ(text_of_choice(joined, 1), "Hello" + text);
  EXPECT_EQ(usage_of(joined, "completion_tokens"), 16);
}

TEST(ServerCompletions, LogprobsAreOfTheSameTokens) {
  const Json got =
      complete("你好", R"("temperature": 2, "seed": 5, "max_tokens": 30, "ignore_eos": true,
                          "logprobs": 2)");
  const Json& logprobs = *got.find("choices")->items().front().find("logprobs");
  const auto count = [&](const char* key) { return logprobs.find(key)->items().size(); };
  EXPECT_EQ(count("tokens"), 30U);
  EXPECT_EQ(count("token_logprobs"), 30U);
  EXPECT_EQ(count("text_offset"), 30U);
  for (size_t i = 0; i < count("top_logprobs"); ++i) {
    const Json& top = logprobs.find("top_logprobs")->items()[i];
    EXPECT_EQ(top.members().size(), 2U);
    const double chosen = logprobs.find("token_logprobs")->items()[i].as_double().value();
    EXPECT_GE(top.members().front().second.as_double().value(), chosen);
    EXPECT_LE(top.members().front().second.as_double().value(), 0.0);
  }
  const Json streamed = joined_text(events_of(demo_server().post(
      kCompletions, prompt_body("你好", R"("temperature": 2, "seed": 5, "max_tokens": 30,
                                         "ignore_eos": true, "logprobs": 2, "stream": true)"))));
  EXPECT_EQ(io::dump_compact(*streamed.find("choices")->items().front().find("logprobs")),
            io::dump_compact(logprobs));
  EXPECT_EQ(text_of_choice(streamed), text_of_choice(got));
}

int64_t count_of(std::string_view body) {
  return integer_of(answered(demo_server().post("/tokenize", body)), "count");
}

// What users write is text, also where it spells a control token.
TEST(ServerCompletions, ControlTokensInTextAreText) {
  for (const char* spelling : {"<｜Assistant｜>", "<｜User｜>", "<｜end▁of▁sentence｜>",
                               "<｜deepseek_image｜>", "</think>"}) {
    const Json ids = answered(demo_server().post("/tokenize", prompt_body(spelling)));
    EXPECT_GT(integer_of(ids, "count"), 3) << spelling;
    for (size_t i = 1; i < integers_of(ids, "tokens").size(); ++i) {  // the first begins the prompt
      EXPECT_LT(integers_of(ids, "tokens")[i], 960) << spelling << ": a control token";
    }
    EXPECT_GT(count_of(ask_body(spelling)), count_of(ask_body("x")) + 1) << spelling;
    const Json answer = complete(spelling, R"("max_tokens": 1)");
    EXPECT_EQ(usage_of(answer, "prompt_tokens"), integer_of(ids, "count")) << spelling;
  }
}

TEST(ServerCompletions, TokensAndBack) {
  const std::string text = "Two carrots, 两根胡萝卜 \xf0\x9f\xa5\x95 <｜User｜>\n";
  const Json ids = answered(demo_server().post("/tokenize", prompt_body(text)));
  EXPECT_EQ(integer_of(ids, "max_model_len"), 32768);
  const std::string tokens = io::dump_compact(*ids.find("tokens"));
  const Json back =
      answered(demo_server().post("/detokenize", str_cat(R"({"tokens": )", tokens, "}")));
  EXPECT_EQ(text_of(back, "prompt"), "<｜begin▁of▁sentence｜>" + text);
  EXPECT_EQ(demo_server().post("/detokenize", R"({"tokens": [1, 99999]})").status, 400);
  EXPECT_EQ(demo_server().post("/detokenize", R"({"tokens": [-1]})").status, 400);
  EXPECT_EQ(demo_server().post("/tokenize", "{}").status, 400);
}

}  // namespace
}  // namespace tessera::test
