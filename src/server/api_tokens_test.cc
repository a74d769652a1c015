#include "server/api_tokens.h"

#include <gtest/gtest.h>

#include "server/api_test.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

TEST(ApiModels, ListAndOne) {
  const std::vector<ServedModel> models = {{"图/m", 5, 4096}, {"alias", 5, 4096}};
  const std::string first =
      R"({"id":"图/m","object":"model","created":5,"owned_by":"tessera","max_model_len":4096})";
  EXPECT_EQ(wire_text(models_json(models)),
            R"({"object":"list","data":[)" + first +
                R"(,{"id":"alias","object":"model","created":5,"owned_by":"tessera",)" +
                R"("max_model_len":4096}]})");
  EXPECT_EQ(wire_text(model_named(models, "图/m")), first);
  EXPECT_EQ(test::refusal([&] { model_named(models, "x"); }),
            "404 model | no model 'x' is served here; see /v1/models");
}

std::string refused_tokenize(std::string_view body) {
  ApiLimits limits;
  limits.models = {"m"};
  return test::refusal([&] { parse_tokenize_body(body, limits); });
}

TEST(ApiTokens, Tokenize) {
  EXPECT_EQ(parse_tokenize_body(R"({"prompt":"你","add_special_tokens":true})", {}).raw_prompt,
            "你");
  const Request chat = parse_tokenize_body(
      R"({"messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"disabled"}})", {});
  EXPECT_EQ(chat.messages.size(), 1U);
  EXPECT_EQ(chat.is_thinking, false);
  EXPECT_FALSE(chat.raw_prompt.has_value());
  EXPECT_EQ(wire_text(tokenize_json({3, 4}, 4096)),
            R"({"count":2,"max_model_len":4096,"tokens":[3,4]})");
}

TEST(ApiTokens, TokenizeRefusals) {
  EXPECT_EQ(refused_tokenize("{}"),
            "400 prompt | prompt: missing, expected a string (or messages)");
  EXPECT_EQ(refused_tokenize(R"({"prompt":"a","messages":[]})"),
            "400 prompt | prompt: found beside messages; send one of the two");
  EXPECT_EQ(refused_tokenize(R"({"prompt":[5]})"),
            "400 prompt | prompt: lists of token ids are not supported; send the text");
  EXPECT_EQ(refused_tokenize(R"({"prompt":"a","add_special_tokens":false})"),
            "400 add_special_tokens | add_special_tokens: not supported; a prompt begins with the "
            "begin token, as in /v1/completions");
  EXPECT_EQ(refused_tokenize(R"({"messages":[]})"),
            "400 messages | messages: the list is empty; send at least one message");
  EXPECT_EQ(refused_tokenize(R"({"prompt":"a","model":"x"})"),
            "404 model | model: no model 'x' is served here, expected m");
}

TEST(ApiTokens, Detokenize) {
  const std::vector<int32_t> ids =
      parse_detokenize_body(R"({"tokens":[0,1,3,4,5,3]})", {}, test::token_bytes);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 3, 4, 5, 3}));
  EXPECT_EQ(wire_text(detokenize_json(ids, test::token_bytes)), "{\"prompt\":\"Hello你好\uFFFD\"}");
  EXPECT_EQ(parse_detokenize_body(R"({"tokens":[]})", {}, test::token_bytes).size(), 0U);
}

TEST(ApiTokens, DetokenizeRefusals) {
  const auto refused = [](std::string_view body) {
    return test::refusal([&] { parse_detokenize_body(body, {}, test::token_bytes); });
  };
  EXPECT_EQ(refused("{}"), "400 tokens | tokens: missing, expected a list of token ids");
  EXPECT_EQ(refused(R"({"tokens":"5"})"),
            "400 tokens | tokens: found '5', expected a list of token ids");
  EXPECT_EQ(refused(R"({"tokens":[1,10]})"),
            "400 tokens[1] | tokens[1]: found 10, expected the id of a token");
  EXPECT_EQ(refused(R"({"tokens":[-1]})"),
            "400 tokens[0] | tokens[0]: found -1, expected an integer from 0 to 2147483647");
  EXPECT_EQ(refused(R"({"tokens":[1.5]})"),
            "400 tokens[0] | tokens[0]: found 1.5, expected an integer from 0 to 2147483647");
}

}  // namespace
}  // namespace tessera::server
