// Load on the engine: requests that arrive by the clock, whether or not earlier ones have ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace tessera::bench {

struct ServeBenchOptions {
  double rate = 4;  // requests per second, on average; times between them are exponential
  int64_t requests = 64;
  double pictures = 0.25;     // share of the requests that bring a picture of their own
  int64_t prompt_words = 60;  // at most; each request draws its own number
  int64_t max_tokens = 32;    // of every answer
  int64_t seed = 1;
};

// One request. Times in milliseconds from its arrival.
struct ServedRequest {
  double arrival_ms = 0;  // from the start of the run
  bool has_picture = false;
  int64_t prompt_tokens = 0;
  int64_t tokens = 0;   // of the answer
  double first_ms = 0;  // to the first text
  double end_ms = 0;
  double longest_gap_ms = 0;  // between two texts
  std::vector<double> gaps_ms;
};

struct ServeReport {
  std::vector<ServedRequest> requests;  // in the order of their arrival
  double seconds = 0;                   // from the first arrival to the last end
  double encode_share = 0;              // ServingLimits of the engine
  ServingStatistics statistics;
};

// Throws Error{bad_request} for options that make no sense, and what a request fails with.
ServeReport bench_serve(Engine& engine, const ServeBenchOptions& options);

// Median, 90th and 99th percentile; zeros without values.
struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

// Milliseconds, and tokens of all answers.
struct ServeSummary {
  Percentiles first_text;     // of requests without a picture
  Percentiles first_picture;  // with one
  Percentiles gaps;           // between two texts of an answer
  int64_t tokens = 0;
  double tokens_per_second = 0;
};
ServeSummary summary_of(const ServeReport& report);

std::string serve_text(const ServeReport& report);
// One line per request, with a head line.
std::string serve_csv(const std::vector<ServeReport>& reports);

}  // namespace tessera::bench
