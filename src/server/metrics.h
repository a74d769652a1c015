// Counters for Prometheus. Names follow vLLM's where they mean the same, with "tessera:" in front.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/engine.h"
#include "server/http_server.h"

namespace tessera::server {

// What is known of a generation that has ended. Times in milliseconds from its arrival.
struct ServedAnswer {
  std::string_view endpoint;  // "chat", "completion"
  std::string_view reason;    // finish reason of its first answer, or "cancelled", "error"
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  double queue_ms = 0;
  double first_ms = 0;  // to the first text; 0: there was none
  double end_ms = 0;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // From any thread.
  void count_response(std::string_view path, int status);
  void count_answer(const ServedAnswer& answer);

  // Text exposition format 0.0.4. `engine`: nullptr while the model is loaded; `residency`: for a
  // model that has one.
  std::string text(const ServingStatistics* engine,
                   const std::optional<ResidencyStatistics>& residency,
                   const HttpStatistics& http) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::server
