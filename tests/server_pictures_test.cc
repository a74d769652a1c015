// Pictures in requests: what they cost, which is which, their place among texts, and what is kept
// of them for the next request.
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>

#include "base/base64.h"
#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

const std::string kQuestion = "What is in the image?";

// Of the same size.
const std::string kTomatoes = picture("p007.png");
const std::string kPurple = picture("p031.png");

std::string asked_about(const std::string& file, const std::string& question = kQuestion) {
  return chat_body(str_cat("[", picture_part(file), ", ", text_part(question), "]"),
                   R"("temperature": 0)");
}

std::string prompt_of(std::string_view content) {
  const Json ids = answered(demo_server().post("/tokenize", chat_body(content)));
  const std::string tokens = io::dump_compact(*ids.find("tokens"));
  return text_of(
      answered(demo_server().post("/detokenize", str_cat(R"({"tokens": )", tokens, "}"))),
      "prompt");
}

TEST(ServerPictures, PromptTokensAreTextAndSpans) {
  const std::string content =
      str_cat("[", text_part("First"), ", ", picture_part(picture("p019.jpg")), ", ",
              picture_part(picture("p035.png")), ", ", text_part("图里有什么？"), "]");
  const Json got =
      answered(demo_server().post(kChat, chat_body(content, R"("max_tokens": 1, "seed": 1)")));
  const Json ids = answered(demo_server().post("/tokenize", chat_body(content)));
  EXPECT_EQ(integer_of(ids, "count"), static_cast<int64_t>(integers_of(ids, "tokens").size()));
  const Json plan = answered(demo_server().post("/v1/images/plan", chat_body(content)));
  const int64_t spans = integer_of(plan, "total_tokens");
  ASSERT_EQ(plan.find("images")->items().size(), 2U);
  EXPECT_EQ(spans, integer_of(plan.find("images")->items()[0], "span_tokens") +
                       integer_of(plan.find("images")->items()[1], "span_tokens"));
  // Each picture has one token among the ids, which its span takes the place of.
  EXPECT_EQ(usage_of(got, "prompt_tokens"), integer_of(ids, "count") - 2 + spans);
  EXPECT_EQ(integer_of(*got.find("usage")->find("prompt_tokens_details"), "image_tokens"), spans);
}

TEST(ServerPictures, EachHasItsOwnAnswer) {
  const std::string tomatoes =
      text_of(json_of({"run", "--temperature", "0", "--image", kTomatoes, kQuestion}), "content");
  const std::string purple =
      text_of(json_of({"run", "--temperature", "0", "--image", kPurple, kQuestion}), "content");
  ASSERT_NE(tomatoes, purple);
  for (int i = 0; i < 6; ++i) {
    const bool is_first = i % 2 == 0;
    const Json got =
        answered(demo_server().post(kChat, asked_about(is_first ? kTomatoes : kPurple)));
    EXPECT_EQ(content_of(got), is_first ? tomatoes : purple) << i;
  }
}

TEST(ServerPictures, TheSecondTimeTheyAreInTheCache) {
  const std::string body = asked_about(picture("p010.jpg"), "描述一下这张图片。");
  const double hits = demo_server().metric("tessera:mm_cache_hits_total");
  const Json first = answered(demo_server().post(kChat, body));
  const Json second = answered(demo_server().post(kChat, body));
  EXPECT_EQ(content_of(first), text_of(eval_items().at("p010"), "model_answer"));
  EXPECT_EQ(content_of(second), content_of(first));
  EXPECT_LT(cached_tokens_of(first), 10);
  EXPECT_EQ(cached_tokens_of(second), usage_of(second, "prompt_tokens") - 1);
  EXPECT_EQ(usage_of(second, "prompt_tokens"), usage_of(first, "prompt_tokens"));
  // In another place of the conversation only what the encoder made of it can be used.
  const Json third = answered(demo_server().post(
      kChat,
      chat_body(str_cat("[", text_part("Look:"), ", ", picture_part(picture("p010.jpg")), "]"),
                R"("max_tokens": 1)")));
  EXPECT_LT(cached_tokens_of(third), 10);
  EXPECT_EQ(demo_server().metric("tessera:mm_cache_hits_total"), hits + 1);
}

TEST(ServerPictures, PartsStayInOrder) {
  const std::string image = picture_part(kPurple);
  const std::string before = text_part("Before");
  const std::string after = text_part("Behind");
  constexpr const char* kImage = "<｜deepseek_image｜>";
  const std::string middle = prompt_of(str_cat("[", before, ",", image, ",", after, "]"));
  EXPECT_NE(middle.find(str_cat("Before\n\n", kImage, "\n\nBehind")), std::string::npos) << middle;
  const std::string first = prompt_of(str_cat("[", image, ",", before, ",", after, "]"));
  EXPECT_NE(first.find(str_cat(kImage, "\n\nBefore\n\nBehind")), std::string::npos) << first;
  const std::string twice =
      prompt_of(str_cat("[", before, ",", image, ",", after, ",", image, "]"));
  EXPECT_NE(twice.find(str_cat("Before\n\n", kImage, "\n\nBehind\n\n", kImage)), std::string::npos)
      << twice;
}

// Spellings of data URLs that clients send; the type that is named does not count.
class ServerDataUrls : public testing::Test {
 protected:
  // The answer of a plan, which has the picture's size in it.
  static std::string plan(const std::string& url) {
    const HttpAnswer answer =
        demo_server().post("/v1/images/plan", str_cat(R"({"images": [)", quoted_json(url), "]}"));
    return str_cat(answer.status, " ", answer.body);
  }

  const std::string bytes_ = read_bytes(kTomatoes);
  const std::string data_ = to_base64(std::as_bytes(std::span(bytes_)));
  const std::string want_ = plan("data:image/png;base64," + data_);
};

TEST_F(ServerDataUrls, TypesParametersPaddingAndLines) {
  EXPECT_TRUE(want_.starts_with("200 ")) << want_;
  EXPECT_EQ(plan("data:image/jpeg;base64," + data_), want_);
  EXPECT_EQ(plan("DATA:Image/PNG;charset=utf-8;base64," + data_), want_);
  EXPECT_EQ(plan("data:image/png;base64," + data_.substr(0, data_.find('='))), want_);
  std::string lines;
  for (size_t i = 0; i < data_.size(); i += 76) {
    lines += data_.substr(i, 76) + "\r\n";
  }
  EXPECT_EQ(plan("data:image/png;base64," + lines), want_);
  EXPECT_TRUE(plan("data:image/png;base64," + data_ + "!").starts_with("400 "));
  EXPECT_TRUE(plan("data:image/png," + data_).starts_with("400 "));
}

TEST_F(ServerDataUrls, CaseOfBase64AndPercentEscapes) {
  EXPECT_EQ(plan("data:image/png;BASE64," + data_), want_);
  std::string escaped;
  for (const char c : data_) {
    escaped += c == '+' ? "%2B" : c == '/' ? "%2f" : std::string(1, c);
  }
  ASSERT_NE(escaped, data_);
  EXPECT_EQ(plan("data:image/png;base64," + escaped), want_);
}

TEST(ServerPictures, NoticesAreHeaders) {
  const HttpAnswer answer =
      demo_server().post(kChat, asked_about(golden_path("image/files/png_rgba8.png")));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.header("X-Tessera-Notice").find("transparent"), std::string::npos)
      << answer.head;
}

std::string path_body(std::string_view path) {
  return chat_body(str_cat(R"([{"type": "image_url", "image_url": {"url": )", quoted_json(path),
                           "}}, ", text_part(kQuestion), "]"),
                   R"("temperature": 0)");
}

TEST(ServerPictures, PathsStayInsideTheMediaRoot) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "root/sub");
  std::filesystem::copy_file(kTomatoes, folder / "root/sub/a.png");
  std::filesystem::copy_file(kTomatoes, folder / "secret.png");
  std::filesystem::create_symlink(folder / "secret.png", folder / "root/link.png");
  std::filesystem::create_directory_symlink(folder.path(), folder / "root/up");
  const RunningServer server({"--media-root", folder / "root"});
  const Json inside = answered(server.post(kChat, path_body("sub/a.png")));
  EXPECT_EQ(content_of(inside), content_of(answered(server.post(kChat, asked_about(kTomatoes)))));
  for (const std::string& path :
       {std::string("../secret.png"), std::string("sub/../../secret.png"), folder / "secret.png",
        folder / "root/sub/a.png", std::string("link.png"), std::string("up/secret.png"),
        std::string("/etc/passwd"), "file://" + (folder / "secret.png"),
        std::string("..%2fsecret.png"), std::string("missing.png"), std::string("sub")}) {
    const HttpAnswer answer = server.post(kChat, path_body(path));
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(text_of(*answer.json().find("error"), "type"), "invalid_request_error") << path;
  }
  // Whether something outside exists is not told.
  const auto message = [&](std::string_view path) {
    std::string text =
        text_of(*server.post(kChat, path_body(path)).json().find("error"), "message");
    const size_t at = text.find(path);
    return at == std::string::npos ? text : text.replace(at, path.size(), "PATH");
  };
  EXPECT_EQ(message("../secret.png"), message("../nothing.png"));
  EXPECT_EQ(message("up/secret.png"), message("up/nothing.png"));
  // Without a media root no path is read.
  EXPECT_EQ(demo_server().post(kChat, path_body(kTomatoes)).status, 400);
  EXPECT_EQ(demo_server().post(kChat, path_body("sub/a.png")).status, 400);
}

}  // namespace
}  // namespace tessera::test
