#include "server/api_chat.h"

#include <gtest/gtest.h>

#include "server/api_test.h"

namespace tessera::server {
namespace {

// A body with one message and `fields`: R"("n":1)".
std::string body_with(std::string_view fields) {
  return R"({"messages":[{"role":"user","content":"Hi"}])" +
         (fields.empty() ? std::string() : "," + std::string(fields)) + "}";
}

ChatCall parsed(std::string_view fields, const ApiLimits& limits = {}) {
  return parse_chat_body(body_with(fields), limits);
}

std::string refused(std::string_view fields, const ApiLimits& limits = {}) {
  return test::refusal([&] { parsed(fields, limits); });
}

TEST(ApiChat, NothingButMessages) {
  const ChatCall call = parsed("");
  ASSERT_EQ(call.request.messages.size(), 1U);
  EXPECT_EQ(call.request.messages[0].content[0].text, "Hi");
  EXPECT_FALSE(call.request.max_tokens.has_value());
  EXPECT_FALSE(call.request.sampling.temperature.has_value());
  EXPECT_FALSE(call.request.logprobs.has_value());
  EXPECT_EQ(call.request.choices, 1);
  EXPECT_EQ(call.options.model, "");
  EXPECT_FALSE(call.options.is_stream);
  EXPECT_FALSE(call.options.has_seed);
  EXPECT_EQ(call.options.ignored_fields, 0);
}

TEST(ApiChat, EveryFieldArrives) {
  const ChatCall call = parsed(
      R"("model":"m","stream":true,"stream_options":{"include_usage":true,)"
      R"("include_obfuscation":false},"max_completion_tokens":7,"temperature":0.5,"top_p":0.25,)"
      R"("n":3,"stop":["终","b"],"seed":-1,"logprobs":true,"top_logprobs":20,)"
      R"("logit_bias":{"0":-100,"2147483647":1.5},"presence_penalty":-2,"frequency_penalty":2,)"
      R"("user":"u","metadata":{"a":"b"},"service_tier":"auto","top_k":40,"min_p":0.1,)"
      R"("repetition_penalty":1.1,"min_tokens":7,"ignore_eos":true,)"
      R"("thinking":{"type":"disabled"},"response_format":{"type":"text"})");
  const Request& r = call.request;
  EXPECT_EQ(call.options.model, "m");
  EXPECT_TRUE(call.options.is_stream && call.options.includes_usage && call.options.has_seed);
  EXPECT_EQ(call.options.ignored_fields, 0);
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.min_tokens, 7);
  EXPECT_TRUE(r.ignores_eos);
  EXPECT_EQ(r.choices, 3);
  EXPECT_EQ(r.logprobs, 20);
  EXPECT_EQ(r.is_thinking, false);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"终", "b"}));
  EXPECT_EQ(r.sampling.temperature, 0.5);
  EXPECT_EQ(r.sampling.top_p, 0.25);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.min_p, 0.1);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(r.sampling.presence_penalty, -2);
  EXPECT_EQ(r.sampling.frequency_penalty, 2);
  EXPECT_EQ(r.sampling.seed, 0xffffffffffffffffU);
  EXPECT_EQ(r.sampling.logit_bias,
            (std::vector<std::pair<int32_t, double>>{{0, -100}, {2147483647, 1.5}}));
}

// Thinking leaves sampling alone, unlike DeepSeek's own API.
TEST(ApiChat, ThinkingKeepsSampling) {
  const ChatCall call = parsed(
      R"("thinking":{"type":"enabled"},"temperature":0,"presence_penalty":1,"reasoning_effort":5)");
  EXPECT_EQ(call.request.is_thinking, true);
  EXPECT_EQ(call.request.effort, 5);
  EXPECT_EQ(call.request.sampling.temperature, 0);
  EXPECT_EQ(call.request.sampling.presence_penalty, 1);
}

TEST(ApiChat, NullIsAbsent) {
  for (const std::string_view name : {"model",
                                      "stream",
                                      "stream_options",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "temperature",
                                      "top_p",
                                      "n",
                                      "stop",
                                      "seed",
                                      "logprobs",
                                      "top_logprobs",
                                      "logit_bias",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "user",
                                      "metadata",
                                      "service_tier",
                                      "top_k",
                                      "min_p",
                                      "repetition_penalty",
                                      "min_tokens",
                                      "ignore_eos",
                                      "functions",
                                      "function_call",
                                      "audio",
                                      "modalities",
                                      "prediction",
                                      "web_search_options",
                                      "store",
                                      "parallel_tool_calls",
                                      "verbosity",
                                      "tools",
                                      "tool_choice",
                                      "response_format",
                                      "thinking",
                                      "reasoning_effort"}) {
    const ChatCall call = parsed("\"" + std::string(name) + "\":null");
    EXPECT_EQ(call.options.ignored_fields, 0) << name;
    EXPECT_FALSE(call.request.max_tokens.has_value());
  }
}

TEST(ApiChat, ValuesThatAskForNothing) {
  for (const std::string_view fields :
       {R"("functions":[])", R"("function_call":"none")", R"("function_call":"auto")",
        R"("parallel_tool_calls":true)", R"("modalities":["text"])", R"("store":false)",
        R"("verbosity":"medium")", R"("service_tier":"default")", R"("best_of":1)",
        R"("chat_template_kwargs":{})", R"("stop":[])", R"("logprobs":false)",
        R"("top_logprobs":0)", R"("logit_bias":{})", R"("stream":false)", R"("tools":[])",
        R"("max_tokens":5,"max_completion_tokens":5)"}) {
    EXPECT_EQ(refused(fields), "accepted") << fields;
  }
  EXPECT_EQ(parsed(R"("top_k":-1)").request.sampling.top_k, 0);
  EXPECT_EQ(parsed(R"("seed":18446744073709551615)").request.sampling.seed, 0xffffffffffffffffU);
  EXPECT_EQ(parsed(R"("logprobs":true)").request.logprobs, 0);
}

TEST(ApiChat, UnknownFieldsAreCounted) {
  const ChatCall call = parsed(R"("extra_body":{"n":5},"图":1,"n":2)");
  EXPECT_EQ(call.options.ignored_fields, 2);
  EXPECT_EQ(call.request.choices, 2);
}

struct Refusal {
  std::string_view fields;
  std::string_view expected;
};

void check(const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    EXPECT_EQ(refused(row.fields), row.expected) << row.fields;
  }
}

TEST(ApiChat, WrongKinds) {
  check({
      {R"("model":5)", "400 model | model: found 5, expected a string"},
      {R"("stream":"true")", "400 stream | stream: found 'true', expected true or false"},
      {R"("stream":true,"stream_options":[])",
       "400 stream_options | stream_options: found a list, expected an object"},
      {R"("stream":true,"stream_options":{"include_usage":1})",
       "400 stream_options.include_usage | stream_options.include_usage: found 1, expected true "
       "or false"},
      {R"("max_tokens":"5")",
       "400 max_tokens | max_tokens: found '5', expected an integer from 1 to 393216"},
      {R"("max_tokens":5.0)",
       "400 max_tokens | max_tokens: found 5.0, expected an integer from 1 to 393216"},
      {R"("temperature":true)",
       "400 temperature | temperature: found true, expected a number from 0 to 2"},
      {R"("temperature":"0.5")",
       "400 temperature | temperature: found '0.5', expected a number from 0 to 2"},
      {R"("stop":5)", "400 stop | stop: found 5, expected a string or a list of strings"},
      {R"("stop":{"a":[]})",
       "400 stop | stop: found an object, expected a string or a list of strings"},
      {R"("stop":["a",null])",
       "400 stop[1] | stop[1]: found null, expected a string that is not empty"},
      {R"("seed":1.5)", "400 seed | seed: found 1.5, expected an integer of 64 bits"},
      {R"("logprobs":1)", "400 logprobs | logprobs: found 1, expected true or false"},
      {R"("logit_bias":[1])",
       "400 logit_bias | logit_bias: found a list, expected an object of token ids and numbers"},
      {R"("logit_bias":{"1":"x"})",
       "400 logit_bias.1 | logit_bias.1: found 'x', expected a number from -100 to 100"},
      {R"("user":5)", "400 user | user: found 5, expected a string"},
      {R"("metadata":"x")", "400 metadata | metadata: found 'x', expected an object"},
      {R"("ignore_eos":0)", "400 ignore_eos | ignore_eos: found 0, expected true or false"},
  });
}

TEST(ApiChat, OutOfRange) {
  check({
      {R"("max_tokens":0)",
       "400 max_tokens | max_tokens: found 0, expected an integer from 1 to 393216"},
      {R"("max_completion_tokens":99999999999999999999)",
       "400 max_completion_tokens | max_completion_tokens: found 99999999999999999999, expected "
       "an integer from 1 to 393216"},
      {R"("max_tokens":5,"max_completion_tokens":6)",
       "400 max_completion_tokens | max_completion_tokens: found 6, but max_tokens is 5; send one "
       "of the two"},
      {R"("max_tokens":5,"min_tokens":6)",
       "400 min_tokens | min_tokens: found 6, expected an integer from 0 to 5"},
      {R"("temperature":2.5)",
       "400 temperature | temperature: found 2.5, expected a number from 0 to 2"},
      {R"("temperature":-1e-300)",
       "400 temperature | temperature: found -1e-300, expected a number from 0 to 2"},
      {R"("top_p":1.01)", "400 top_p | top_p: found 1.01, expected a number from 0 to 1"},
      {R"("n":0)", "400 n | n: found 0, expected an integer from 1 to 128"},
      {R"("n":129)", "400 n | n: found 129, expected an integer from 1 to 128"},
      {R"("stop":"")", "400 stop | stop: found '', expected a string that is not empty"},
      {R"("stop":["a",""])",
       "400 stop[1] | stop[1]: found '', expected a string that is not empty"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
       "400 stop | stop: found 17 strings, expected at most 16"},
      {R"("seed":18446744073709551616)",
       "400 seed | seed: found 18446744073709551616, expected an integer of 64 bits"},
      {R"("seed":-9223372036854775809)",
       "400 seed | seed: found -9223372036854775809, expected an integer of 64 bits"},
      {R"("logprobs":true,"top_logprobs":21)",
       "400 top_logprobs | top_logprobs: found 21, expected an integer from 0 to 20"},
      {R"("top_logprobs":3)",
       "400 top_logprobs | top_logprobs: needs logprobs; send \"logprobs\": true too"},
      {R"("logprobs":false,"top_logprobs":3)",
       "400 top_logprobs | top_logprobs: needs logprobs; send \"logprobs\": true too"},
      {R"("logit_bias":{"5":100.5})",
       "400 logit_bias.5 | logit_bias.5: found 100.5, expected a number from -100 to 100"},
      {R"("logit_bias":{"-1":1})",
       "400 logit_bias | logit_bias: found the key '-1', expected a token id"},
      {R"("logit_bias":{"01":1})",
       "400 logit_bias | logit_bias: found the key '01', expected a token id"},
      {R"("logit_bias":{"2147483648":1})",
       "400 logit_bias | logit_bias: found the key '2147483648', expected a token id"},
      {R"("logit_bias":{"图":1})",
       "400 logit_bias | logit_bias: found the key '图', expected a token id"},
      {R"("presence_penalty":2.01)",
       "400 presence_penalty | presence_penalty: found 2.01, expected a number from -2 to 2"},
      {R"("frequency_penalty":-3)",
       "400 frequency_penalty | frequency_penalty: found -3, expected a number from -2 to 2"},
      {R"("top_k":-2)",
       "400 top_k | top_k: found -2, expected an integer from -1 to 1099511627776"},
      {R"("min_p":2)", "400 min_p | min_p: found 2, expected a number from 0 to 1"},
      {R"("repetition_penalty":0)",
       "400 repetition_penalty | repetition_penalty: found 0, expected a number from 0.01 to 100"},
      {R"("stream_options":{})",
       "400 stream_options | stream_options: only a stream has them; send \"stream\": true, or "
       "leave it out"},
  });
  ApiLimits limits;
  limits.max_choices = 2;
  limits.max_logit_bias = 1;
  EXPECT_EQ(refused(R"("logit_bias":{"1":1,"2":1})", limits),
            "400 logit_bias | logit_bias: found 2 tokens, expected at most 1");
  EXPECT_EQ(refused(R"("n":3)", limits), "400 n | n: found 3, expected an integer from 1 to 2");
}

TEST(ApiChat, WhatCannotBeHonoured) {
  check({
      {R"("functions":[{"name":"f"}])", "400 functions | functions: not supported; send tools"},
      {R"("function_call":{"name":"f"})",
       "400 function_call | function_call: not supported; send tool_choice"},
      {R"("audio":{"voice":"a"})", "400 audio | audio: not supported; answers are text"},
      {R"("modalities":["text","audio"])",
       "400 modalities | modalities: not supported; answers are text"},
      {R"("prediction":{})", "400 prediction | prediction: not supported; leave it out"},
      {R"("web_search_options":{})",
       "400 web_search_options | web_search_options: not supported; there is no search; send a "
       "tool"},
      {R"("store":true)", "400 store | store: not supported; nothing is stored"},
      {R"("parallel_tool_calls":false)",
       "400 parallel_tool_calls | parallel_tool_calls: not supported; the model decides how many "
       "calls it makes"},
      {R"("service_tier":"flex")",
       "400 service_tier | service_tier: not supported; there is one tier"},
      {R"("verbosity":"low")", "400 verbosity | verbosity: not supported; say it in a message"},
      {R"("chat_template_kwargs":{"thinking":false})",
       "400 chat_template_kwargs | chat_template_kwargs: not supported; send thinking and "
       "reasoning_effort"},
      {R"("guided_json":{})", "400 guided_json | guided_json: not supported; send response_format"},
      {R"("stream":true,"stream_options":{"continuous_usage_stats":true})",
       "400 stream_options.continuous_usage_stats | stream_options.continuous_usage_stats: not "
       "supported; the last event has the usage"},
  });
}

TEST(ApiChat, PromptErrorsNameTheirField) {
  const auto refused_body = [](std::string_view body) {
    return test::refusal([&] { parse_chat_body(body, {}); });
  };
  EXPECT_EQ(refused_body("{}"),
            "400 messages | 'messages' is missing, expected a list of messages");
  EXPECT_EQ(refused_body(R"({"messages":[]})"),
            "400 messages | messages: the list is empty; send at least one message");
  EXPECT_EQ(refused_body(R"({"messages":[{"role":"user","content":[{"type":"input_audio"}]}]})"),
            "400 messages[0].content[0] | messages[0].content[0]: unknown content part type "
            "'input_audio', expected text, image_url or file");
  EXPECT_EQ(refused_body(R"({"messages":[{"role":"user","content":[{"type":"image_url",)"
                         R"("image_url":{"url":"/etc/passwd"}}]}]})"),
            "400 messages[0].content[0].image_url.url | messages[0].content[0].image_url.url: "
            "'/etc/passwd' is no URL, and files of this machine are not read for requests; send an "
            "http(s) URL or a data: URL (data:image/png;base64,...)");
  ApiLimits limits;
  limits.picture_paths = PicturePaths::allow;
  EXPECT_EQ(test::refusal([&] {
              parse_chat_body(R"({"messages":[{"role":"user","content":[{"type":"image_url",)"
                              R"("image_url":{"url":"/etc/passwd"}}]}]})",
                              limits);
            }),
            "accepted");
  EXPECT_EQ(refused(R"("response_format":{"type":"xml"})"),
            "400 response_format | response_format: unknown response format 'xml', expected one of "
            "text, json_object, json_schema");
}

TEST(ApiChat, BodiesThatAreNoJsonObject) {
  const auto refused_body = [](std::string_view body) {
    return test::refusal([&] { parse_chat_body(body, {}); });
  };
  EXPECT_EQ(refused_body(""), "400  | request body: is empty, expected a JSON value");
  EXPECT_EQ(refused_body("[1]"), "400  | request body: found a list, expected a JSON object");
  EXPECT_EQ(refused_body("null"), "400  | request body: found null, expected a JSON object");
  EXPECT_EQ(refused_body(R"({"n":1,"n":2})"),
            "400  | request body: line 1: the key 'n' appears twice in one object");
  std::string deep = R"({"messages":)" + std::string(100000, '[');
  for (const std::string& body :
       {std::string("{"), std::string("{\"n\":NaN}"), std::string("{\"n\":1e999}"),
        std::string(R"({"user":"\ud800"})"), std::string("{\"user\":\"\xff\"}"),
        std::string(R"({"a":1} x)"), std::string("{\"a\":\"\0\"}", 9), deep,
        deep + std::string(100000, ']') + "}"}) {
    EXPECT_TRUE(refused_body(body).starts_with("400  | request body: ")) << body.substr(0, 60);
  }
}

TEST(ApiChat, Models) {
  ApiLimits limits;
  limits.models = {"deepseek-v4.1-flash", "deepseek-chat"};
  EXPECT_EQ(parsed(R"("model":"deepseek-chat")", limits).options.model, "deepseek-chat");
  EXPECT_EQ(parsed("", limits).options.model, "");
  EXPECT_EQ(refused(R"("model":"gpt-4")", limits),
            "404 model | model: no model 'gpt-4' is served here, expected deepseek-v4.1-flash");
  EXPECT_EQ(refused(R"("model":"")", limits),
            "404 model | model: no model '' is served here, expected deepseek-v4.1-flash");
}

}  // namespace
}  // namespace tessera::server
