// What the server itself costs: requests that need no model, and the way of a token from the
// engine's event to a client's socket. `./x bench http [--seconds S]`
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/api_stream.h"
#include "server/http_server.h"
#include "server/service.h"

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStepMs = 20;   // of a model that answers 50 tokens a second
constexpr int kTokens = 20'000;  // of the stream

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Connection {
 public:
  explicit Connection(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
      throw Error(ErrorCode::io, "cannot connect to the server of the benchmark");
    }
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view text) {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
      throw Error(ErrorCode::io, "sending to the server of the benchmark failed");
    }
  }
  // Reads until `end` has come; returns the bytes.
  size_t read_until(std::string_view end) {
    std::string tail;
    size_t total = 0;
    for (;;) {
      char buffer[65536];
      const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) {
        throw Error(ErrorCode::io, "the server of the benchmark closed the connection");
      }
      total += static_cast<size_t>(got);
      tail.append(buffer, static_cast<size_t>(got));
      if (tail.find(end) != std::string::npos) {
        return total;
      }
      tail.erase(0, tail.size() - std::min(tail.size(), end.size()));
    }
  }

 private:
  int fd_;
};

HttpOptions any_port() {
  HttpOptions options;
  options.port = 0;
  options.limits.requests_per_connection = 100'000'000;
  options.limits.unsent_bytes = int64_t{256} << 20;
  return options;
}

// Requests per second of one client that waits for each answer.
double health_rate(double seconds) {
  ServerOptions options;
  options.http = any_port();
  options.model_names = {"none"};
  Service service(options);
  HttpServer http(options.http,
                  [&](const std::shared_ptr<Exchange>& exchange) { service.handle(exchange); });
  Connection client(http.port());
  const Clock::time_point start = Clock::now();
  int64_t count = 0;
  while (seconds_since(start) < seconds) {
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_until("\"}");
    ++count;
  }
  const double rate = static_cast<double>(count) / seconds_since(start);
  http.stop();
  return rate;
}

// Milliseconds of a token: event to JSON, to the socket, to the client.
double token_ms() {
  HttpServer http(any_port(), [&](const std::shared_ptr<Exchange>& exchange) {
    AnswerForm form;
    form.request_id = "bench";
    form.model = "model";
    AnswerStream stream(AnswerStream::Kind::chat, form, 1);
    HttpResponse head;
    head.content_type = "text/event-stream";
    exchange->begin_stream(head);
    RequestEvent event;
    event.delta.text = "猫 cat";
    for (int i = 0; i < kTokens; ++i) {
      exchange->write(stream.event(event));
    }
    exchange->write("data: [DONE]\n\n");
    exchange->end_stream();
  });
  Connection client(http.port());
  const Clock::time_point start = Clock::now();
  client.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_until("[DONE]");
  const double ms = 1000 * seconds_since(start) / kTokens;
  http.stop();
  return ms;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(double seconds) {
  constexpr int kRuns = 5;
  std::vector<double> rates, tokens;
  for (int i = 0; i < kRuns; ++i) {
    rates.push_back(health_rate(seconds / kRuns));
    tokens.push_back(token_ms());
  }
  const double ms = median(tokens);
  std::printf("GET /health, one client, answer by answer   %10.0f requests/s (wanted: 5000)\n",
              median(rates));
  std::printf("a token of a stream, event to client        %10.4f ms, %.3f %% of a step of %g ms\n",
              ms, 100 * ms / kStepMs, kStepMs);
}

}  // namespace
}  // namespace tessera::server

int main(int argc, char** argv) {
  double seconds = 5;
  if (argc == 3 && std::strcmp(argv[1], "--seconds") == 0) {
    seconds = std::atof(argv[2]);
  }
  if (!(seconds > 0) || (argc != 1 && argc != 3)) {
    std::fprintf(stderr, "usage: http_bench [--seconds S]\n");
    return 2;
  }
  try {
    tessera::server::run(seconds);
    return 0;
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "http_bench: %s\n", error.what());
    return 3;
  }
}
