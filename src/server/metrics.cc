#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

namespace tessera::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets kSeconds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                          2.5,   5,     10,   20,    40,   80,  160,  640, 2560};
const Buckets kTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                               0.15,  0.2,    0.3,   0.5,  0.75,  1,    2.5,   10};
const Buckets kTokens = {1, 10, 50, 100, 500, 1000, 5000, 10'000, 50'000, 100'000, 500'000};

Family<Counter>& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                     const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

void gauge(prometheus::Registry& registry, const char* name, const char* help, double value) {
  prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({}).Set(value);
}

void gauge(prometheus::Registry& registry, const char* name, const char* help, int64_t value) {
  gauge(registry, name, help, static_cast<double>(value));
}

// A total that somebody else counts.
void total(prometheus::Registry& registry, const char* name, const char* help, int64_t value) {
  counter(registry, name, help).Add({}).Increment(static_cast<double>(value));
}

void add_engine(prometheus::Registry& r, const ServingStatistics& s) {
  gauge(r, "tessera:num_requests_running", "Requests that have memory", s.running);
  gauge(r, "tessera:num_requests_waiting", "Requests without memory yet, or swapped out",
        s.waiting);
  const double pages = static_cast<double>(std::max<int64_t>(s.cache_pages, 1));
  gauge(r, "tessera:kv_cache_usage_perc", "Used part of the cache pages: 1 is all",
        static_cast<double>(s.used_cache_pages) / pages);
  gauge(r, "tessera:kept_states", "States in the prefix cache", s.kept_states);
  gauge(r, "tessera:kept_state_bytes", "Bytes of the prefix cache", s.kept_state_bytes);
  total(r, "tessera:num_preemptions_total", "Times that a request was swapped out", s.swapped_out);
  total(r, "tessera:evicted_states_total", "States that the prefix cache let go", s.evicted_states);
  total(r, "tessera:prefix_cache_queries_total", "Tokens of prompts", s.prompt_tokens);
  total(r, "tessera:prefix_cache_hits_total", "Of these, found in the prefix cache",
        s.cached_tokens);
  total(r, "tessera:mm_cache_queries_total", "Pictures of prompts", s.pictures);
  total(r, "tessera:mm_cache_hits_total", "Of these, already encoded", s.cached_pictures);
  total(r, "tessera:engine_steps_total", "Passes of the model", s.steps);
  total(r, "tessera:engine_rows_total", "Rows of these", s.rows);
}

void add_residency(prometheus::Registry& r, const ResidencyStatistics& s) {
  gauge(r, "tessera:resident_limit_bytes", "Most memory of the process; 0: no limit",
        s.limit_bytes);
  gauge(r, "tessera:resident_weight_bytes", "Memory of the process that is mapped from files",
        s.file_bytes);
  gauge(r, "tessera:locked_weight_bytes", "Weights that stay in memory", s.locked_bytes);
  total(r, "tessera:used_weight_bytes_total", "Weights that steps read", s.used_bytes);
  total(r, "tessera:missed_weight_bytes_total", "Of these, not in the process before",
        s.missed_bytes);
  total(r, "tessera:dropped_weight_bytes_total", "Weights that left to stay below the limit",
        s.dropped_bytes);
  total(r, "tessera:read_ahead_bytes_total", "Weights requested before their use",
        s.read_ahead_bytes);
  total(r, "tessera:major_faults_total", "Touches that waited for the disk", s.major_faults);
}

void add_transport(prometheus::Registry& r, const HttpStatistics& s) {
  gauge(r, "tessera:http_connections", "Connections that are open", s.open_connections);
  gauge(r, "tessera:http_active_requests", "Requests that are not completely answered",
        s.active_requests);
  total(r, "tessera:http_connections_total", "Connections that were accepted",
        s.accepted_connections);
  total(r, "tessera:http_refused_connections_total", "Connections over the limit",
        s.refused_connections);
  total(r, "tessera:http_dropped_readers_total", "Clients that did not take in what was sent",
        s.dropped_readers);
  total(r, "tessera:http_left_clients_total", "Clients that left before their answer",
        s.left_clients);
  total(r, "tessera:http_received_bytes_total", "Bytes received", s.received_bytes);
  total(r, "tessera:http_sent_bytes_total", "Bytes sent", s.sent_bytes);
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  Family<Counter>& responses = counter(registry, "tessera:http_responses_total",
                                       "Answers of the server, by path and status");
  Family<Counter>& ended = counter(registry, "tessera:request_success_total",
                                   "Generations that ended, by endpoint and finish reason");
  Counter& prompt_tokens =
      counter(registry, "tessera:prompt_tokens_total", "Tokens of prompts").Add({});
  Counter& answer_tokens =
      counter(registry, "tessera:generation_tokens_total", "Tokens of answers").Add({});
  Histogram& queue = histogram(registry, "tessera:request_queue_time_seconds",
                               "From arrival to having memory", kSeconds);
  Histogram& first = histogram(registry, "tessera:time_to_first_token_seconds",
                               "From arrival to the first text", kSeconds);
  Histogram& end = histogram(registry, "tessera:e2e_request_latency_seconds",
                             "From arrival to the end", kSeconds);
  Histogram& per_token = histogram(registry, "tessera:time_per_output_token_seconds",
                                   "Mean time of a token behind the first", kTokenSeconds);
  Histogram& prompt_size =
      histogram(registry, "tessera:request_prompt_tokens", "Tokens of a prompt", kTokens);
  Histogram& answer_size = histogram(registry, "tessera:request_generation_tokens",
                                     "Tokens of the answers to a prompt", kTokens);
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::count_response(std::string_view path, int status) {
  state_->responses.Add({{"path", std::string(path)}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::count_answer(const ServedAnswer& answer) {
  State& s = *state_;
  s.ended
      .Add({{"endpoint", std::string(answer.endpoint)},
            {"finished_reason", std::string(answer.reason)}})
      .Increment();
  s.prompt_tokens.Increment(static_cast<double>(answer.prompt_tokens));
  s.answer_tokens.Increment(static_cast<double>(answer.answer_tokens));
  s.queue.Observe(answer.queue_ms / 1000);
  s.end.Observe(answer.end_ms / 1000);
  s.prompt_size.Observe(static_cast<double>(answer.prompt_tokens));
  s.answer_size.Observe(static_cast<double>(answer.answer_tokens));
  if (answer.first_ms > 0) {
    s.first.Observe(answer.first_ms / 1000);
  }
  if (answer.first_ms > 0 && answer.answer_tokens > 1) {
    s.per_token.Observe((answer.end_ms - answer.first_ms) / 1000 /
                        static_cast<double>(answer.answer_tokens - 1));
  }
}

std::string Metrics::text(const ServingStatistics* engine,
                          const std::optional<ResidencyStatistics>& residency,
                          const HttpStatistics& http) const {
  prometheus::Registry now;  // of what is counted elsewhere
  if (engine != nullptr) {
    add_engine(now, *engine);
  }
  if (residency.has_value()) {
    add_residency(now, *residency);
  }
  add_transport(now, http);
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  for (prometheus::MetricFamily& family : now.Collect()) {
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tessera::server
