// Clients that leave, queues that are full, time that runs out, and the server's end.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

constexpr const char* kLong = R"("ignore_eos": true, "max_tokens": 800, "seed": 4)";
constexpr const char* kLongStream =
    R"("ignore_eos": true, "max_tokens": 800, "seed": 4, "stream": true)";
constexpr const char* kEndless =
    R"("ignore_eos": true, "max_tokens": 30000, "seed": 4, "stream": true)";

bool is_idle(const RunningServer& server) {
  return server.metric("tessera:num_requests_running") == 0 &&
         server.metric("tessera:num_requests_waiting") == 0;
}

std::string hello_of(const RunningServer& server) {
  return content_of(answered(server.post(kChat, ask_body("Hello", R"("temperature": 0)"))));
}

// In each state: before the prompt, in it, waiting, in the answer, whole and streamed.
TEST(ServerLife, AHundredClientsLeave) {
  RunningServer server({"--max-queued", "200"});
  const std::string want = hello_of(server);
  const std::string prompt(600, '7');
  const std::string image = picture_part(picture("p019.jpg"));
  for (int i = 0; i < 100; ++i) {
    const std::string content = i % 3 == 0 ? str_cat("[", image, ",", text_part(str_cat(i)), "]")
                                           : quoted_json(i % 3 == 1 ? str_cat(prompt, i) : "Hello");
    HttpConnection connection =
        server.begin(kChat, chat_body(content, i % 2 == 0 ? kLong : kLongStream));
    if (i % 10 == 9) {
      connection.read_until("data: ");
    }
    if (i % 4 == 0) {
      connection.reset();
    } else {
      connection.close();
    }
  }
  EXPECT_TRUE(holds_soon([&] {
    return is_idle(server) && server.metric("tessera:http_active_requests") == 1;  // this one
  }));
  EXPECT_EQ(hello_of(server), want);
  EXPECT_LT(server.metric("tessera:generation_tokens_total"), 100 * 400.0)
      << "answers that nobody reads went on";
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.stop().status, 0);
}

TEST(ServerLife, QueueKeepAliveAndDraining) {
  // A slow machine may need long for both answers: the server's own 30 seconds are not the test's.
  RunningServer server({"--max-running", "1", "--max-queued", "2", "--keep-alive", "0.05",
                        "--drain-timeout", "600"});
  HttpConnection running = server.begin(kChat, ask_body("Hello", kLongStream));
  running.read_until("data: ");
  HttpConnection waiting =
      server.begin(kChat, ask_body("Hello", R"("temperature": 0, "stream": true)"));
  // It waits behind the first: nothing but comments comes.
  const HttpAnswer quiet = waiting.read_until(": ");
  EXPECT_EQ(quiet.status, 200);
  EXPECT_EQ(quiet.body.find("data:"), std::string::npos) << quiet.body;
  const HttpAnswer refused = server.post(kChat, ask_body("Hello"));
  EXPECT_EQ(text_of(*answered(refused, 429).find("error"), "type"), "rate_limit_error");
  EXPECT_GE(std::stoi(refused.header("Retry-After")), 1);
  EXPECT_EQ(server.metric("tessera:num_requests_running"), 1);
  EXPECT_EQ(server.metric("tessera:num_requests_waiting"), 1);

  server.send(SIGTERM);
  EXPECT_TRUE(holds_soon([&] { return server.get("/ready").status == 503; }));
  const HttpAnswer draining = server.post(kChat, ask_body("Hello"));
  EXPECT_EQ(text_of(*answered(draining, 503).find("error"), "code"), "service_unavailable");
  EXPECT_NE(draining.header("Retry-After"), "");
  const Json first = joined_chat(events_of(running.read()));
  EXPECT_EQ(finish_reason_of(first), "length");
  const EventStream second = events_of(waiting.read());
  EXPECT_GE(second.comments, 1);
  EXPECT_EQ(finish_reason_of(joined_chat(second)), "stop");
  const ProgramResult result = server.finish();
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST(ServerLife, WhatDoesNotEndIsCutOff) {
  RunningServer server({"--drain-timeout", "0.2"});
  HttpConnection endless = server.begin(kChat, ask_body("Hello", kEndless));
  endless.read_until("data: ");
  server.send(SIGINT);
  const ProgramResult result = server.finish();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(endless.is_closed_by_server());
}

TEST(ServerLife, RequestsHaveATime) {
  const RunningServer server({"--request-timeout", "0.05"});
  const Json whole = answered(server.post(kChat, ask_body("Hello", kLong)));
  EXPECT_EQ(finish_reason_of(whole), "length");
  EXPECT_LT(usage_of(whole, "completion_tokens"), 800);
  const Json streamed = joined_chat(events_of(server.post(kChat, ask_body("Hello", kLongStream))));
  EXPECT_EQ(finish_reason_of(streamed), "length");
  EXPECT_TRUE(holds_soon([&] { return is_idle(server); }));
}

}  // namespace
}  // namespace tessera::test
