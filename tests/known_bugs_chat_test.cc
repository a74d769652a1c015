// Known bugs of requests that hold pictures in unusual places, or nothing (docs/known-bugs.md, B38
// and B39).
#include <set>

#include "base/error.h"
#include "models/deepseek_v41/chat_request.h"
#include "models/deepseek_v41/prompt.h"
#include "tests/known_bugs_test.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::test {
namespace {

std::string url_of(const std::string& file) {
  return "data:image/png;base64," + to_base64(std::as_bytes(std::span(file)));
}

std::string url_part(const std::string& url) {
  return str_cat(R"({"type":"image_url","image_url":{"url":")", url, R"("}})");
}

// Throws Error{bad_request}.
Request chat(const std::string& messages) {
  deepseek_v41::ChatRequest body = deepseek_v41::parse_chat_request(
      str_cat(R"({"messages":[)", messages, R"(],"thinking":{"type":"disabled"}})"), "request",
      deepseek_v41::ImagePaths::refuse);
  Request request = ask({});
  request.messages = std::move(body.messages);
  return request;
}

std::string refusal(const std::string& messages) {
  try {
    chat(messages);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
  return "";
}

// A message of nothing but pictures, or of nothing: written as the vendor writes it, or refused by
// a rule.
TEST(KnownBugChat, EmptyAndPictureOnlyMessages) {
  const deepseek_v41::PromptEncoder encoder(released_tokenizer(), kReleasedImageId);
  const std::string picture = url_part("data:image/png;base64,AAAA");
  const std::string empty = R"({"type":"text","text":""})";
  const std::vector<std::pair<std::string, std::string>> contents = {
      {str_cat("[", picture, "]"), "◆"},
      {str_cat("[", picture, ",", picture, "]"), "◆\n\n◆"},
      {str_cat("[", empty, ",", picture, "]"), "\n\n◆"},
      {str_cat("[", picture, ",", empty, "]"), "◆\n\n"},
      {R"("")", ""},
      {"[]", ""},
      {str_cat("[", empty, "]"), ""}};
  for (const auto& [content, want] : contents) {
    std::string expected = want;
    for (size_t at = expected.find("◆"); at != std::string::npos; at = expected.find("◆")) {
      expected.replace(at, std::string("◆").size(), deepseek_v41::kImagePlaceholder);
    }
    const Request request = chat(str_cat(R"({"role":"user","content":)", content, "}"));
    EXPECT_EQ(encoder.encode(request.messages, {.is_thinking = false}).text,
              str_cat("<｜begin▁of▁sentence｜><｜User｜>", expected, "<｜Assistant｜></think>"))
        << content;
  }
  for (const char* content : {R"(,"content":null)", "", R"(,"content":5)", R"(,"content":{})",
                              R"(,"content":[null])", R"(,"content":[{"type":"text"}])"}) {
    EXPECT_NE(refusal(str_cat(R"({"role":"user")", content, "}")).find("request.messages[0]"),
              std::string::npos)
        << content;
  }
}

// A turn that was empty, a picture alone, or refused does not spoil the conversation.
TEST(KnownBugChat, TheConversationGoesOn) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const std::string picture = url_part(url_of(drawn_file({120, 90}, 3)));
  const std::string first = str_cat(R"({"role":"user","content":[)", picture, "]}");
  const std::string answer = R"({"role":"assistant","content":"A cat."})";
  const std::string next = R"({"role":"user","content":"Where?"})";
  const auto refused = {
      str_cat(R"({"role":"assistant","content":[)", picture, "]}"),
      std::string(R"({"role":"user","content":null})"),
      str_cat(R"({"role":"user","content":[)", url_part("data:image/png;base64,*"), "]}")};
  for (const std::string& bad : refused) {
    EXPECT_NE(refusal(str_cat(first, ",", answer, ",", bad)), "") << bad;
  }
  const std::vector<std::string> conversations = {
      first,
      str_cat(first, ",", answer, ",", next),
      str_cat(first, ",", R"({"role":"assistant","content":""})", ",", next),
      str_cat(first, ",", R"({"role":"user","content":""})", ",", next),
  };
  for (int round = 0; round < 2; ++round) {
    for (const std::string& messages : conversations) {
      // Whole for the parser, damaged inside: fails when it is opened, and alone.
      const std::string damaged = url_part("data:image/png;base64,iVBORw0KGgo=");
      EXPECT_THROW(
          engine->submit(chat(str_cat(messages, R"(,{"role":"user","content":[)", damaged, "]}")))
              ->result(),
          Error);
      expect_same(engine->submit(chat(messages))->result(), plain_result(chat(messages)),
                  messages.substr(messages.size() - 40));
    }
  }
}

// Pictures of tools are read like those of users, also in the turns that follow.
TEST(KnownBugChat, ToolsMaySendPictures) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const std::string call =
      R"({"role":"user","content":"Look."},{"role":"assistant","content":null,"tool_calls":[)"
      R"({"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]},)";
  std::set<double> answers;
  for (const uint32_t seed : {1U, 2U}) {
    const std::string result = str_cat(
        call, R"({"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"It:"},)",
        url_part(url_of(drawn_file({120, 90}, seed))), "]}");
    for (const std::string& messages :
         {result, result + R"(,{"role":"assistant","content":"A cat."},)"
                           R"({"role":"user","content":"Where?"})"}) {
      const Request request = chat(messages);
      const Result got = engine->submit(request)->result();
      EXPECT_EQ(got.span_tokens.size(), 1U);
      expect_same(got, plain_result(request), str_cat("picture ", seed));
      answers.insert(first_logprob(got));
    }
  }
  EXPECT_EQ(answers.size(), 4U);
}

}  // namespace
}  // namespace tessera::test
