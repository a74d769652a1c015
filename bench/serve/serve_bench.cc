#include "serve/serve_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "intake/png_encode.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 12> kWords = {
    "red", "cat", "two", "blue", "house", "how", "many", "图里", "几只", "猫", "is", "the"};

double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

// A picture that no other request has: stripes of drawn colours.
std::string drawn_picture(std::mt19937_64& random) {
  image::Image picture({160 + static_cast<int64_t>(random() % 160), 120});
  std::array<uint8_t, 64> levels;
  for (uint8_t& level : levels) {
    level = static_cast<uint8_t>(random());
  }
  for (int64_t y = 0; y < picture.height(); ++y) {
    for (int64_t i = 0; i < picture.row_bytes(); ++i) {
      picture.row(y)[i] = levels[static_cast<size_t>((i / 24 + y / 16) % 64)];
    }
  }
  return to_base64(intake::encode_png(picture));
}

Request drawn_request(const ServeBenchOptions& options, std::mt19937_64& random, bool has_picture) {
  Request request;
  Message message;
  if (has_picture) {
    ContentBlock& block = message.content.emplace_back();
    block.kind = ContentBlock::Kind::image;
    block.image.kind = ImageSource::Kind::base64;
    block.image.value = drawn_picture(random);
  }
  std::string text;
  const uint64_t words = 1 + random() % static_cast<uint64_t>(options.prompt_words);
  for (uint64_t i = 0; i < words; ++i) {
    text += str_cat(kWords[random() % kWords.size()], " ");
  }
  message.content.emplace_back().text = text;
  request.messages.push_back(std::move(message));
  request.sampling.seed = random();
  request.max_tokens = options.max_tokens;
  request.ignores_eos = true;
  return request;
}

void check(const ServeBenchOptions& o) {
  const auto require = [](bool is_fine, const char* name, const auto& found, const char* expected) {
    if (!is_fine) {
      throw Error(ErrorCode::bad_request, str_cat(name, " ", found, ": expected ", expected));
    }
  };
  require(o.rate > 0 && o.rate <= 1e6, "--rate", o.rate, "a number above 0");
  require(o.requests >= 1 && o.requests <= 100'000, "--requests", o.requests, "1 to 100000");
  require(o.pictures >= 0 && o.pictures <= 1, "--pictures", o.pictures, "a share from 0 to 1");
  require(o.prompt_words >= 1 && o.prompt_words <= 100'000, "--words", o.prompt_words,
          "1 to 100000");
  require(o.max_tokens >= 1 && o.max_tokens <= 100'000, "--max-tokens", o.max_tokens,
          "1 to 100000");
}

// Reads the events of one request as a client would.
void follow(Ticket& ticket, Clock::time_point arrival, ServedRequest& out) {
  Clock::time_point last = arrival;
  while (const std::optional<RequestEvent> event = ticket.next()) {
    if (event->kind != RequestEvent::Kind::delta) {
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (out.first_ms == 0) {
      out.first_ms = ms_between(arrival, now);
    } else {
      out.gaps_ms.push_back(ms_between(last, now));
      out.longest_gap_ms = std::max(out.longest_gap_ms, out.gaps_ms.back());
    }
    last = now;
  }
  out.end_ms = ms_between(arrival, Clock::now());
  const Result result = ticket.result();
  out.prompt_tokens = result.prompt_tokens;
  out.tokens = result.completion_tokens();
}

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size())) - 1;
    return values[static_cast<size_t>(std::max(rank, 0.0))];
  };
  return {at(0.5), at(0.9), at(0.99)};
}

std::string line_of(const char* name, const Percentiles& p) {
  return str_cat(name, p.p50, " / ", p.p90, " / ", p.p99, " ms\n");
}

}  // namespace

ServeReport bench_serve(Engine& engine, const ServeBenchOptions& options) {
  check(options);
  std::mt19937_64 random(static_cast<uint64_t>(options.seed));
  std::exponential_distribution<double> gap(options.rate);
  std::bernoulli_distribution brings_picture(options.pictures);
  const size_t count = static_cast<size_t>(options.requests);
  ServeReport report;
  report.requests.resize(count);
  std::vector<Request> requests;
  double at = 0;
  for (ServedRequest& served : report.requests) {
    served.arrival_ms = 1000 * at;
    served.has_picture = brings_picture(random);
    at += gap(random);
    requests.push_back(drawn_request(options, random, served.has_picture));
  }
  std::vector<std::exception_ptr> errors(count);
  const Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> clients;
    for (size_t i = 0; i < count; ++i) {
      const auto arrival =
          start + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double, std::milli>(report.requests[i].arrival_ms));
      std::this_thread::sleep_until(arrival);
      const std::shared_ptr<Ticket> ticket = engine.submit(std::move(requests[i]));
      clients.emplace_back([&report, &errors, ticket, arrival, i] {
        try {
          follow(*ticket, arrival, report.requests[i]);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
  }
  report.seconds = ms_between(start, Clock::now()) / 1000;
  report.statistics = engine.serving_statistics();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
  return report;
}

ServeSummary summary_of(const ServeReport& report) {
  std::vector<double> text_first, picture_first, gaps;
  ServeSummary summary;
  for (const ServedRequest& request : report.requests) {
    (request.has_picture ? picture_first : text_first).push_back(request.first_ms);
    gaps.insert(gaps.end(), request.gaps_ms.begin(), request.gaps_ms.end());
    summary.tokens += request.tokens;
  }
  summary.first_text = percentiles(std::move(text_first));
  summary.first_picture = percentiles(std::move(picture_first));
  summary.gaps = percentiles(std::move(gaps));
  summary.tokens_per_second = static_cast<double>(summary.tokens) / report.seconds;
  return summary;
}

std::string serve_text(const ServeReport& report) {
  const ServeSummary summary = summary_of(report);
  const ServingStatistics& s = report.statistics;
  const double steps = static_cast<double>(std::max<int64_t>(s.steps, 1));
  return str_cat("encode share ", report.encode_share, ": ", report.requests.size(),
                 " requests in ", report.seconds, " s, ", summary.tokens, " tokens, ",
                 summary.tokens_per_second, " tokens/s\n",
                 line_of("first text, without picture  ", summary.first_text),
                 line_of("first text, with a picture   ", summary.first_picture),
                 line_of("between texts                ", summary.gaps), "steps ", s.steps,
                 ", rows per step ", static_cast<double>(s.rows) / steps, ", answers per step ",
                 static_cast<double>(s.answer_rows) / steps,
                 "\n(times: median / 90 % / 99 % of the requests stay below)\n");
}

std::string serve_csv(const std::vector<ServeReport>& reports) {
  std::string text =
      "encode_share,arrival_ms,picture,prompt_tokens,tokens,first_ms,longest_gap_ms,median_gap_ms,"
      "end_ms\n";
  for (const ServeReport& report : reports) {
    for (const ServedRequest& r : report.requests) {
      text += str_cat(report.encode_share, ",", r.arrival_ms, ",", r.has_picture ? 1 : 0, ",",
                      r.prompt_tokens, ",", r.tokens, ",", r.first_ms, ",", r.longest_gap_ms, ",",
                      percentiles(r.gaps_ms).p50, ",", r.end_ms, "\n");
    }
  }
  return text;
}

}  // namespace tessera::bench
