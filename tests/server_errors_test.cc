// What requests that cannot be served are told: status, type, param, code and message.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

struct Expected {
  int status = 400;
  const char* param = nullptr;  // nullptr: null
  const char* code = nullptr;
  const char* part = "";  // of the message
  const char* type = "invalid_request_error";
};

void expect_refusal(const HttpAnswer& answer, const Expected& expected, std::string_view what) {
  const Json body = answered(answer, expected.status);
  const Json* const error = body.find("error");
  ASSERT_NE(error, nullptr) << what << ": " << answer.body;
  expect_members(*error, {{"message", Json::Kind::string},
                          {"type", Json::Kind::string},
                          {"param", expected.param ? Json::Kind::string : Json::Kind::null},
                          {"code", expected.code ? Json::Kind::string : Json::Kind::null}});
  EXPECT_EQ(text_of(*error, "type"), expected.type) << what;
  EXPECT_EQ(text_of(*error, "param"), expected.param ? expected.param : "") << what;
  EXPECT_EQ(text_of(*error, "code"), expected.code ? expected.code : "") << what;
  const std::string message = text_of(*error, "message");
  EXPECT_NE(message.find(expected.part), std::string::npos) << what << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
}

struct Row {
  std::string body;
  Expected expected;
};

void expect_refusals(std::string_view path, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    expect_refusal(demo_server().post(path, row.body), row.expected, row.body.substr(0, 150));
  }
}

std::string image_url(std::string_view url) {
  return chat_body(
      str_cat(R"([{"type": "image_url", "image_url": {"url": )", quoted_json(url), "}}]"));
}

TEST(ServerErrors, Bodies) {
  const auto deep = [](size_t levels) {
    return str_cat(R"({"messages": )", std::string(levels, '['), std::string(levels, ']'), "}");
  };
  expect_refusals(
      kChat,
      {{"{\"a\"", {.part = "not valid JSON"}},
       {"[]", {.part = "object"}},
       {"\"text\"", {.part = "object"}},
       {ask_body("\xff"), {.part = "UTF-8"}},
       {ask_body("\xed\xa0\x80"), {.part = "UTF-8"}},
       {chat_body(R"("\ud800")"), {}},
       {R"({"messages": [], "messages": []})", {.part = "messages"}},
       {deep(127), {.param = "messages[0]"}},
       {deep(128), {.part = "nested deeper"}},
       {deep(100'000), {.part = "nested deeper"}},
       {"{}", {.param = "messages", .part = "missing"}},
       {R"({"messages": null})", {.param = "messages"}},
       {R"({"messages": []})", {.param = "messages", .part = "at least one"}},
       {R"({"messages": "hello"})", {.param = "messages"}},
       {R"({"messages": [{"content": "x"}]})", {.param = "messages[0]", .part = "role"}},
       {R"({"messages": [{"role": "robot", "content": "x"}]})", {.param = "messages[0].role"}},
       {chat_body("null"), {.param = "messages[0].content"}},
       {chat_body("7"), {.param = "messages[0].content"}},
       {ask_body("x", R"("model": "gpt-9")"),
        {.status = 404, .param = "model", .code = "model_not_found", .part = "tessera-demo"}},
       {ask_body("x", R"("n": 17)"), {.param = "n", .part = "1 to 16"}},
       {ask_body("x", R"("n": 0)"), {.param = "n"}},
       {ask_body("x", R"("temperature": 2.1)"), {.param = "temperature"}},
       {ask_body("x", R"("temperature": "warm")"), {.param = "temperature"}},
       {ask_body("x", R"("max_tokens": 0)"), {.param = "max_tokens"}},
       {ask_body("x", R"("stream": "yes")"), {.param = "stream"}},
       {ask_body("x", R"("stop": "")"), {.param = "stop"}},
       {ask_body("x", R"("top_logprobs": 3)"), {.param = "top_logprobs"}},
       {ask_body("x", R"("stream_options": {"include_usage": true})"), {.param = "stream_options"}},
       {ask_body("x", R"("guided_json": {"type": "object"})"), {.param = "guided_json"}},
       {ask_body("x", R"("response_format": {"type": "json_object"})"),
        {.param = "response_format", .part = "json"}}});
}

TEST(ServerErrors, ContentAndPictures) {
  const std::string good = picture_part(picture("p019.jpg"));
  const std::string broken =
      R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})";
  std::string many = "[";
  for (int i = 0; i < 601; ++i) {
    many += str_cat(i == 0 ? "" : ",", broken);
  }
  constexpr const char* kUrl = "messages[0].content[0].image_url.url";
  expect_refusals(kChat,
                  {{chat_body(R"([{"type": "video_url", "video_url": {"url": "x"}}])"),
                    {.param = "messages[0].content[0]", .part = "video_url"}},
                   {chat_body(R"([{"text": "x"}])"), {.param = "messages[0].content[0]"}},
                   {chat_body(R"([{"type": "text", "text": 7}])"),
                    {.param = "messages[0].content[0]", .part = "text"}},
                   {chat_body(str_cat("[", good, ",", broken, ",", text_part("x"), "]")),
                    {.part = "image 1: "}},
                   {chat_body(many + "]"), {.part = "600"}},
                   {image_url("data:image/png;base64,iVBOR!"), {.param = kUrl, .part = "base64"}},
                   {image_url("/etc/passwd"), {.param = kUrl}},
                   {image_url("images/p001.png"), {.param = kUrl}},
                   {image_url("../../etc/passwd"), {.param = kUrl}},
                   {image_url("file:///etc/passwd"), {.param = kUrl}},
                   {image_url("FILE:/etc/passwd"), {.param = kUrl}},
                   {image_url(""), {.param = kUrl}},
                   {image_url("http://127.0.0.1/cat.png"), {.part = "image 0: blocked"}},
                   {image_url("http://169.254.169.254/latest"), {.part = "image 0: blocked"}},
                   {image_url("http://[::ffff:127.0.0.1]/"), {.part = "image 0: blocked"}}});
}

// Rules of the encoder, not of a validator: what has no text is a conversation all the same.
TEST(ServerErrors, EmptyTextIsNone) {
  const std::string image = picture_part(picture("p019.jpg"));
  for (const std::string& content :
       {std::string(R"("")"), std::string("[]"), str_cat("[", image, "]"),
        str_cat("[", image, ",", text_part(""), "]")}) {
    const Json got = answered(demo_server().post(kChat, chat_body(content, R"("temperature": 0)")));
    EXPECT_FALSE(content_of(got).empty()) << content.substr(0, 40);
  }
}

// The same on a stream: the status is still to be sent.
TEST(ServerErrors, StreamsHaveAStatusToo) {
  const std::string body =
      chat_body(R"([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])",
                R"("stream": true)");
  expect_refusal(demo_server().post(kChat, body), {.part = "image 0: "}, "stream");
}

TEST(ServerErrors, Completions) {
  expect_refusals(
      kCompletions,
      {{"{}", {.param = "prompt", .part = "missing"}},
       {R"({"prompt": ""})", {.param = "prompt"}},
       {R"({"prompt": [1, 2]})", {.param = "prompt", .part = "token ids"}},
       {R"({"prompt": ["a", "b"]})", {.param = "prompt", .part = "one request for each"}},
       {R"({"prompt": "a", "suffix": "b"})", {.param = "suffix"}},
       {R"({"prompt": "a", "best_of": 2})", {.param = "best_of"}},
       {R"({"prompt": "a", "logprobs": 21})", {.param = "logprobs"}},
       {R"({"prompt": "a", "logprobs": 1, "echo": true})", {.param = "echo"}},
       {R"({"prompt": "a", "model": "other"})",
        {.status = 404, .param = "model", .code = "model_not_found"}}});
}

TEST(ServerErrors, PathsMethodsAndHosts) {
  const RunningServer& server = demo_server();
  expect_refusal(server.get("/nothing"), {.status = 404, .code = "unknown_url"}, "path");
  expect_refusal(server.post("/v1/chat/completions/", "{}"), {.status = 404, .code = "unknown_url"},
                 "path with a slash");
  const HttpAnswer get = server.get(kChat);
  expect_refusal(get, {.status = 405, .code = "method_not_allowed"}, "GET");
  EXPECT_EQ(get.header("Allow"), "POST");
  const HttpAnswer post = server.post("/v1/models", "{}");
  expect_refusal(post, {.status = 405, .code = "method_not_allowed"}, "POST");
  EXPECT_EQ(post.header("Allow"), "GET, HEAD");
  EXPECT_EQ(HttpConnection(server.port()).ask("DELETE", "/v1/models").status, 405);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/json; charset=latin1"}) {
    expect_refusal(server.post(kChat, ask_body("x"), {{"Content-Type", type}}),
                   {.status = 415, .code = "unsupported_media_type"}, type);
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example"}) {
    EXPECT_EQ(server.get("/v1/models", {{"Host", host}}).status, 403) << host;
  }
  for (const char* host : {"localhost", "127.0.0.1:9", "[::1]:80"}) {
    EXPECT_EQ(server.get("/v1/models", {{"Host", host}}).status, 200) << host;
  }
  EXPECT_EQ(server.get("/v1/models/tessera-demo").status, 200);
  expect_refusal(server.get("/v1/models/other"),
                 {.status = 404, .param = "model", .code = "model_not_found"}, "model");
}

TEST(ServerErrors, TooLong) {
  const RunningServer server({"--context", "64", "--max-body", "1"});
  const std::string words(1000, '7');
  const int64_t tokens = integer_of(answered(server.post("/tokenize", ask_body(words))), "count");
  const std::string counts = str_cat("the prompt has ", tokens, " tokens");
  const Expected expected = {
      .param = "messages", .code = "context_length_exceeded", .part = counts.c_str()};
  for (const char* more : {"", R"("stream": true)", R"("max_tokens": 1)"}) {
    const HttpAnswer answer = server.post(kChat, ask_body(words, more));
    expect_refusal(answer, expected, more);
    EXPECT_NE(answer.body.find("holds 64"), std::string::npos) << answer.body;
  }
  expect_refusal(server.post(kCompletions, str_cat(R"({"prompt": ")", words, R"("})")),
                 {.param = "prompt", .code = "context_length_exceeded", .part = "holds 64"},
                 "completion");
  // A picture of 112 tokens; two of them are named together.
  const HttpAnswer picture =
      server.post(kChat, chat_body(str_cat("[", picture_part(test::picture("p035.png")), "]")));
  expect_refusal(
      picture, {.param = "messages", .code = "context_length_exceeded", .part = "112 of pictures"},
      "picture");
  // The context also ends answers.
  const Json cut =
      answered(server.post(kChat, ask_body("Hello", R"("ignore_eos": true, "max_tokens": 1000)")));
  EXPECT_EQ(finish_reason_of(cut), "length");
  EXPECT_EQ(usage_of(cut, "total_tokens"), 64);

  const std::string large(2 << 20, ' ');
  expect_refusal(server.post(kChat, large), {.status = 413, .code = "request_too_large"}, "length");
  const std::string chunk = str_cat("200000\r\n", large, "\r\n0\r\n\r\n");  // 2 MiB
  HttpConnection chunked(server.port());
  chunked.send(http_request(
      "POST", kChat, {}, {{"Content-Type", "application/json"}, {"Transfer-Encoding", "chunked"}}));
  chunked.send(chunk);
  EXPECT_EQ(chunked.read().status, 413);
  EXPECT_EQ(server.get("/health").status, 200);
}

}  // namespace
}  // namespace tessera::test
