// Keys and tenants, and what the log must not show.
#include <gtest/gtest.h>

#include <string>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

const std::string kAlice = "alice-secret-0123456789";
const std::string kBob = "bob-secret-9876543210";
const std::string kCarol = "carol-secret-5555555555";

HttpFields with_key(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }

TEST(ServerKeys, OpenTheDoorAndPartTheCaches) {
  const TempFolder folder;
  const std::string file =
      folder.write("keys", "# people\nalice " + kAlice + "\nbob " + kBob + "\n");
  ProgramOptions options;
  options.environment = {{"TESSERA_API_KEYS", "carol " + kCarol}};
  const RunningServer server({"--api-key-file", file, "--log-level", "debug"}, options);
  const std::string body = chat_body(
      str_cat("[", picture_part(picture("p003.png")), ",", text_part("What do you see?"), "]"),
      R"("temperature": 0)");
  for (const HttpFields& fields :
       {HttpFields(), with_key("wrong-secret-0123456789"), with_key(""), with_key(kAlice + "x"),
        with_key(kAlice.substr(1)), HttpFields{{"Authorization", kAlice}},
        HttpFields{{"Authorization", "Basic " + kAlice}}}) {
    const HttpAnswer answer = server.post(kChat, body, fields);
    EXPECT_EQ(text_of(*answered(answer, 401).find("error"), "code"), "invalid_api_key");
    EXPECT_EQ(answer.header("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(server.get("/v1/models", fields).status, 401);
    EXPECT_EQ(server.get("/metrics", fields).status, 401);
    EXPECT_EQ(server.post("/tokenize", R"({"prompt": "x"})", fields).status, 401);
  }
  for (const char* path : {"/health", "/ready", "/version", "/openapi.json"}) {
    EXPECT_EQ(server.get(path).status, 200) << path;
  }
  for (const std::string& key : {kAlice, kBob, kCarol}) {  // each is alone with its cache
    const Json first = answered(server.post(kChat, body, with_key(key)));
    EXPECT_EQ(cached_tokens_of(first), 0) << key;
    const Json second = answered(server.post(kChat, body, with_key(key)));
    EXPECT_EQ(cached_tokens_of(second), usage_of(second, "prompt_tokens") - 1) << key;
    EXPECT_EQ(content_of(first), "Two carrots and one pea pod.");
    EXPECT_EQ(content_of(second), content_of(first));
  }
  const std::string log = server.log();
  EXPECT_NE(log.find("path=/v1/chat/completions status=200"), std::string::npos) << log;
  EXPECT_NE(log.find("status=401"), std::string::npos);
  for (const char* secret : {"secret", "base64", "iVBORw0KGgo", "carrots", "What do you see"}) {
    EXPECT_EQ(log.find(secret), std::string::npos) << secret << " stands in the log";
  }
}

TEST(ServerKeys, FilesThatAreRefused) {
  const TempFolder folder;
  const auto refused = [&](std::string_view keys, std::string_view part) {
    const ProgramResult result =
        run_program({"serve", "--check-config", "--api-key-file", folder.write("keys", keys)});
    expect_error(result, 2, {part});
    EXPECT_EQ(result.err.find("secret"), std::string::npos) << result.err;
  };
  refused("short-secret\n", "line 1: a key has 12 characters");
  refused("a " + kAlice + "\na " + kBob + "\n", "appears twice");
  expect_error(run_program({"serve", "--check-config", "--api-key-file", folder / "missing"}), 2,
               {"missing"});
}

}  // namespace
}  // namespace tessera::test
