#include "server/api_completion.h"

#include <gtest/gtest.h>

#include "server/api_test.h"

namespace tessera::server {
namespace {

CompletionCall parsed(std::string_view fields) {
  return parse_completion_body("{" + std::string(fields) + "}", {});
}

std::string refused(std::string_view fields) {
  return test::refusal([&] { parsed(fields); });
}

TEST(ApiCompletion, PromptAndOptions) {
  const CompletionCall call = parsed(
      R"("prompt":"从前","echo":true,"max_tokens":3,"n":2,"best_of":2,"stream":true,"suffix":"",)"
      R"("temperature":0,"stop":"。","seed":5,"x":1)");
  EXPECT_EQ(call.request.raw_prompt, "从前");
  EXPECT_TRUE(call.request.messages.empty());
  EXPECT_TRUE(call.echoes_prompt);
  EXPECT_EQ(call.request.max_tokens, 3);
  EXPECT_EQ(call.request.choices, 2);
  EXPECT_EQ(call.request.sampling.temperature, 0);
  EXPECT_EQ(call.request.sampling.seed, 5U);
  EXPECT_EQ(call.request.stop, std::vector<std::string>{"。"});
  EXPECT_TRUE(call.options.is_stream);
  EXPECT_EQ(call.options.ignored_fields, 1);
}

TEST(ApiCompletion, ListOfOnePrompt) {
  EXPECT_EQ(parsed(R"("prompt":["one"])").request.raw_prompt, "one");
}

TEST(ApiCompletion, LogprobsAreANumber) {
  EXPECT_EQ(parsed(R"("prompt":"a","logprobs":0)").request.logprobs, 0);
  EXPECT_EQ(parsed(R"("prompt":"a","logprobs":20)").request.logprobs, 20);
  EXPECT_FALSE(parsed(R"("prompt":"a","logprobs":null)").request.logprobs.has_value());
}

TEST(ApiCompletion, Refusals) {
  const std::vector<std::pair<std::string_view, std::string_view>> rows = {
      {"", "400 prompt | prompt: missing, expected a string"},
      {R"("prompt":null)", "400 prompt | prompt: missing, expected a string"},
      {R"("prompt":"")", "400 prompt | prompt: found '', expected a string that is not empty"},
      {R"("prompt":5)", "400 prompt | prompt: found 5, expected a string that is not empty"},
      {R"("prompt":[])",
       "400 prompt | prompt: found 0 prompts, expected one; send one request for each"},
      {R"("prompt":["a","b"])",
       "400 prompt | prompt: found 2 prompts, expected one; send one request for each"},
      {R"("prompt":[1,2])",
       "400 prompt | prompt: lists of token ids are not supported; send the text"},
      {R"("prompt":[[1]])",
       "400 prompt | prompt: lists of token ids are not supported; send the text"},
      {R"("prompt":"a","suffix":"b")",
       "400 suffix | suffix: not supported; the model does not fill gaps"},
      {R"("prompt":"a","best_of":2)",
       "400 best_of | best_of: found 2, but n is 1; every answer is returned, so they must be "
       "equal"},
      {R"("prompt":"a","best_of":"x")",
       "400 best_of | best_of: found 'x', expected an integer from 1 to 128"},
      {R"("prompt":"a","logprobs":true)",
       "400 logprobs | logprobs: found true, expected an integer from 0 to 20"},
      {R"("prompt":"a","logprobs":21)",
       "400 logprobs | logprobs: found 21, expected an integer from 0 to 20"},
      {R"("prompt":"a","echo":true,"logprobs":1)",
       "400 echo | echo: does not go with logprobs: the prompt has none; leave out one of them"},
      {R"("prompt":"a","echo":"yes")", "400 echo | echo: found 'yes', expected true or false"},
      {R"("messages":[])", "400 messages | messages: not supported; send /v1/chat/completions"},
      {R"("prompt":"a","max_tokens":0)",
       "400 max_tokens | max_tokens: found 0, expected an integer from 1 to 393216"},
      {R"("prompt":"a","response_format":{"type":"json_object"})",
       "400 response_format | response_format: not supported; send the chat endpoint"},
  };
  for (const auto& [fields, expected] : rows) {
    EXPECT_EQ(refused(fields), expected) << fields;
  }
}

}  // namespace
}  // namespace tessera::server
