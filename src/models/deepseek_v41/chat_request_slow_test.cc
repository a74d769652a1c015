// Large requests, through reading and encoding. A step whose time grows with the square of their
// size would run into the test's time limit.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "models/deepseek_v41/chat_request.h"
#include "models/deepseek_v41/prompt.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr int kMany = 100'000;

Prompt prompt_of(const ChatRequest& request) {
  const PromptEncoder encoder(test::released_tokenizer(), test::kReleasedImageId);
  return encoder.encode(request.messages, {});
}

TEST(LargeRequest, TenMegabytesOfTextInOneMessage) {
  std::string text;
  while (text.size() < 10'000'000) {
    text += "The quick brown fox, 12345 times. 你好 ";
  }
  const ChatRequest request =
      parse_chat_request(str_cat(R"({"response_format":{"type":"json_object"},)",
                                 R"("messages":[{"role":"user","content":")", text, "json\"}]}"),
                         "request", ImagePaths::refuse);
  EXPECT_TRUE(request.is_json);
  const Prompt prompt = prompt_of(request);
  EXPECT_GT(prompt.ids.size(), 1'000'000U);
  EXPECT_NE(prompt.text.find(text), std::string::npos);
}

TEST(LargeRequest, ManyMessages) {
  std::string messages = R"({"role":"system","content":"s"})";
  for (int i = 0; i < kMany; ++i) {
    messages += i % 2 == 0 ? R"(,{"role":"user","content":"u"})"
                           : R"(,{"role":"assistant","content":"a","reasoning_content":"r"})";
  }
  const ChatRequest request = parse_chat_request(str_cat(R"({"messages":[)", messages, "]}"),
                                                 "request", ImagePaths::refuse);
  EXPECT_EQ(request.messages.size(), kMany + 1U);
  // <｜User｜>, u, <｜Assistant｜>, </think>, a, end: for each pair.
  EXPECT_GE(prompt_of(request).ids.size(), kMany / 2 * 6U);
}

TEST(LargeRequest, ManyCallsAndResults) {
  std::string calls;
  std::string results;
  for (int i = 0; i < kMany; ++i) {
    calls += str_cat(i == 0 ? "" : ",", R"({"id":"c)", i,
                     R"(","type":"function","function":{"name":"f","arguments":"{}"}})");
    results += str_cat(R"(,{"role":"tool","content":")", i == kMany - 1 ? "first" : "",
                       R"(","tool_call_id":"c)", kMany - 1 - i, "\"}");
  }
  const ChatRequest request =
      parse_chat_request(str_cat(R"({"messages":[{"role":"assistant","content":"","tool_calls":[)",
                                 calls, "]}", results, "]}"),
                         "request", ImagePaths::refuse);
  EXPECT_EQ(request.messages.size(), kMany + 1U);
  EXPECT_NE(prompt_of(request).text.find("<｜User｜><tool_result>first</tool_result>"),
            std::string::npos);
}

TEST(LargeRequest, ManyToolsAndKeys) {
  std::string tools;
  std::string keys;
  std::string properties;
  for (int i = 0; i < kMany; ++i) {
    tools += str_cat(R"(,{"type":"function","function":{"name":"f)", i, "\"}}");
    keys += str_cat(",\"k", i, "\":0");
    properties += str_cat(i == 0 ? "" : ",", "\"p", i, R"(":{"type":"string"})");
  }
  const ChatRequest request = parse_chat_request(
      str_cat(R"({"messages":[{"role":"user","content":"u"}],"tools":[)",
              R"({"type":"function","function":{"name":"keys")", keys, "}},",
              R"({"type":"function","function":{"name":"strict","strict":true,)",
              R"("parameters":{"type":"object","properties":{)", properties, "}}}}", tools, "]}"),
      "request", ImagePaths::refuse);
  EXPECT_EQ(request.messages[0].tools.size(), kMany + 2U);
  EXPECT_GT(prompt_of(request).ids.size(), static_cast<size_t>(kMany));
}

}  // namespace
}  // namespace tessera::deepseek_v41
