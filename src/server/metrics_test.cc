#include "server/metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::server {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, CountsWhatItIsTold) {
  Metrics metrics;
  metrics.count_response("/health", 200);
  metrics.count_response("/health", 200);
  metrics.count_answer({.endpoint = "chat",
                        .reason = "stop",
                        .prompt_tokens = 10,
                        .answer_tokens = 5,
                        .queue_ms = 2,
                        .first_ms = 30,
                        .end_ms = 70});
  ServingStatistics engine;
  engine.running = 3;
  engine.prompt_tokens = 10;
  engine.cached_tokens = 4;
  ResidencyStatistics residency;
  residency.limit_bytes = 1'000'000;
  residency.dropped_bytes = 5;
  const std::string text = metrics.text(&engine, residency, {});
  EXPECT_TRUE(has_line(text, "tessera:resident_limit_bytes 1000000")) << text;
  EXPECT_TRUE(has_line(text, "tessera:dropped_weight_bytes_total 5"));
  EXPECT_TRUE(has_line(text, R"(tessera:http_responses_total{path="/health",status="200"} 2)"))
      << text;
  EXPECT_TRUE(
      has_line(text, R"(tessera:request_success_total{endpoint="chat",finished_reason="stop"} 1)"));
  EXPECT_TRUE(has_line(text, "tessera:prompt_tokens_total 10"));
  EXPECT_TRUE(has_line(text, "tessera:generation_tokens_total 5"));
  EXPECT_TRUE(has_line(text, "tessera:num_requests_running 3"));
  EXPECT_TRUE(has_line(text, "tessera:prefix_cache_hits_total 4"));
  EXPECT_TRUE(has_line(text, "tessera:time_per_output_token_seconds_sum 0.01"));
  EXPECT_TRUE(has_line(text, R"(tessera:time_to_first_token_seconds_bucket{le="0.025"} 0)"));
  EXPECT_TRUE(has_line(text, R"(tessera:time_to_first_token_seconds_bucket{le="0.05"} 1)"));
}

TEST(Metrics, WithoutAnEngineThoseOfTheTransportStand) {
  HttpStatistics http = {};
  http.accepted_connections = 7;
  const std::string text = Metrics().text(nullptr, std::nullopt, http);
  EXPECT_TRUE(has_line(text, "tessera:http_connections_total 7")) << text;
  EXPECT_EQ(text.find("num_requests_running"), std::string::npos);
}

}  // namespace
}  // namespace tessera::server
