// Many clients at once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

// Questions whose answers differ, and their answers.
std::string question(int i) {
  return i % 4 == 0
             ? chat_body(
                   str_cat("[", picture_part(picture(i % 8 == 0 ? "p003.png" : "p010.jpg")), ",",
                           text_part(i % 8 == 0 ? "What do you see?" : "图里有什么？"), "]"),
                   R"("temperature": 0)")
             : ask_body(i % 4 == 1 ? "Hello" : "你好！",
                        str_cat(R"("temperature": 1.2, "ignore_eos": true, "max_tokens": )",
                                8 + i % 5, R"(, "seed": )", i % 16));
}

TEST(ServerLoad, AnswersDoNotDependOnTheOthers) {
  const RunningServer server;
  constexpr int kClients = 20;
  std::vector<std::string> alone(kClients);
  for (int i = 0; i < kClients; ++i) {
    alone[static_cast<size_t>(i)] = content_of(answered(server.post(kChat, question(i))));
  }
  std::vector<HttpConnection> connections;
  for (int i = 0; i < kClients; ++i) {
    connections.push_back(server.begin(kChat, question(i)));
  }
  for (int i = 0; i < kClients; ++i) {
    const Json got = answered(connections[static_cast<size_t>(i)].read());
    EXPECT_EQ(content_of(got), alone[static_cast<size_t>(i)]) << i;
  }
}

// 1,000 streams that wait, 500 connections that ask nothing and 200 clients with questions: no
// error, every answer right, and no more memory in later rounds.
TEST(ServerLoad, IdleStreamsAndActiveClients) {
  constexpr int kStreams = 1000;
  constexpr int kIdle = 500;
  constexpr int kClients = 200;
  const RunningServer server({"--max-queued", "2000", "--keep-alive", "0.5"});
  std::vector<std::string> want;
  for (int i = 0; i < 16; ++i) {
    want.push_back(content_of(answered(server.post(kChat, question(i)))));
  }
  std::vector<HttpConnection> idle;
  for (int i = 0; i < kIdle; ++i) {
    idle.emplace_back(server.port());
    ASSERT_TRUE(idle.back().is_open()) << i;
  }
  std::vector<int64_t> resident;
  for (int round = 0; round < 3; ++round) {
    std::vector<HttpConnection> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(server.begin(
          kChat, ask_body("Hello", R"("temperature": 0, "stream": true, "max_tokens": 2)")));
      ASSERT_TRUE(streams.back().is_open()) << i;
    }
    std::vector<HttpConnection> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(server.begin(kChat, question(i % 16)));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      ASSERT_EQ(content_of(answered(clients[i].read())), want[i % 16]) << i;
    }
    for (HttpConnection& stream : streams) {
      ASSERT_EQ(content_of(joined_chat(events_of(stream.read()))), "Hello!");
    }
    streams.clear();
    clients.clear();
    ASSERT_TRUE(holds_soon([&] { return server.metric("tessera:http_connections") <= kIdle + 1; }));
    resident.push_back(server.resident_bytes());
  }
  // Caches fill in the first round; later ones leave nothing behind.
  constexpr int64_t kSlack = int64_t{8} << 20;
  EXPECT_LT(resident[2], resident[1] + kSlack)
      << resident[0] << ", " << resident[1] << ", " << resident[2] << " bytes";
  for (HttpConnection& connection : idle) {
    ASSERT_EQ(connection.ask("GET", "/health").status, 200);
  }
}

// Distinct pictures one after the other: what is kept of them is bounded.
TEST(ServerLoad, PicturesDoNotPileUp) {
  const RunningServer server({"--picture-cache", "1", "--prefix-cache", "8"});
  std::vector<int64_t> resident;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 30; ++i) {
      // A GIF of 2 x 1 pixels in colours of its own.
      std::string gif("GIF89a\2\0\1\0\x80\0\0", 13);
      const char red = static_cast<char>(round * 30 + i);
      gif += std::string({red, 0, 0, 0, red, 1});
      gif += std::string(",\0\0\0\0\2\0\1\0\0\2\2\x44\x0a\0;", 16);
      const TempFolder folder;
      const HttpAnswer answer =
          server.post(kChat, chat_body(str_cat("[", picture_part(folder.write("a.gif", gif)), "]"),
                                       R"("temperature": 0, "max_tokens": 4)"));
      ASSERT_EQ(answer.status, 200) << answer.body;
    }
    resident.push_back(server.resident_bytes());
  }
  constexpr int64_t kSlack = int64_t{8} << 20;
  EXPECT_LT(resident[3], resident[1] + kSlack) << resident[1] << " to " << resident[3] << " bytes";
}

}  // namespace
}  // namespace tessera::test
