#include "server/http_server.h"

#include <sys/resource.h>

#include <mutex>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "server/http_connection.h"

namespace tessera::server {
namespace {

constexpr int64_t kConnectionsMax = 16'384;  // if they are not given
constexpr int64_t kFilesKept = 256;          // descriptors for other things, or half of them
constexpr int64_t kRefusedMax = 64;          // connections over the limit that are told so

// What is left of the descriptors of the process, after raising their limit as far as it goes.
int64_t connections_from_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kFilesKept;
  }
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    limit = raised;
  }
  const rlim_t cap = kConnectionsMax + kFilesKept;
  const auto descriptors = static_cast<int64_t>(std::min(limit.rlim_cur, cap));
  return std::max<int64_t>(descriptors - std::min(kFilesKept, descriptors / 2), 1);
}

HttpLimits complete(HttpLimits limits) {
  const int64_t possible = connections_from_descriptors();
  if (limits.connections == 0) {
    limits.connections = possible;
  }
  return limits;
}

std::shared_ptr<AnswerRules> answer_rules(const HttpOptions& options) {
  auto out = std::make_shared<AnswerRules>();
  out->error_body = options.error_body ? options.error_body : &plain_error_body;
  out->unsent_bytes = options.limits.unsent_bytes;
  return out;
}

RequestRules request_rules(const HttpOptions& options) {
  RequestRules out{.body_bytes = options.limits.body_bytes};
  for (const std::string& host : options.allowed_hosts) {
    // A port is not looked at, so that it may stand here too.
    out.allowed_hosts.push_back(host_without_port(host).value_or(ascii_lower(host)));
  }
  out.allowed_hosts.push_back(ascii_lower(options.address));
  for (const std::string& origin : options.allowed_origins) {
    out.allowed_origins.push_back(ascii_lower(origin));
  }
  return out;
}

std::shared_ptr<const TlsIdentity> identity_of(const HttpOptions& options) {
  if (options.tls_certificate.empty()) {
    return nullptr;
  }
  return std::make_shared<const TlsIdentity>(options.tls_certificate, options.tls_key);
}

const HttpOptions& checked(const HttpOptions& options) {
  check_options(options);
  return options;
}

}  // namespace

class HttpServer::State {
 public:
  State(const HttpOptions& options, HttpHandler handler)
      : options_(checked(options)),
        io_(options_, identity_of(options_)),
        handlers_(options_.handler_threads, std::move(handler)),
        service_{.limits = complete(options_.limits),
                 .rules = request_rules(options_),
                 .answers = answer_rules(options_),
                 .handlers = handlers_} {
    io_.start(options_.io_threads,
              [this](std::unique_ptr<HttpStream> stream) { take(std::move(stream)); });
  }

  ~State() { stop(); }

  uint16_t port() const { return io_.port(); }

  HttpStatistics statistics() const {
    const HttpCounters& counters = service_.counters;
    return {.open_connections = service_.connections.size(),
            .max_connections = service_.limits.connections,
            .accepted_connections = counters.accepted,
            .refused_connections = counters.refused,
            .accept_failures = io_.accept_failures(),
            .requests = counters.requests,
            .active_requests = counters.active_requests,
            .transport_errors = counters.transport_errors,
            .timeouts = counters.timeouts,
            .dropped_readers = counters.dropped_readers,
            .left_clients = counters.left_clients,
            .received_bytes = counters.received_bytes,
            .sent_bytes = counters.sent_bytes};
  }

  void stop_accepting() {
    const std::lock_guard guard(mutex_);
    stop_accepting_locked();
  }

  void stop() {
    const std::lock_guard guard(mutex_);
    stop_accepting_locked();
    service_.connections.close_all();
    handlers_.stop();
    io_.finish();
  }

  void reload_certificate() {
    if (options_.tls_certificate.empty()) {
      throw Error(ErrorCode::bad_request, "the server has no certificate to read again");
    }
    io_.set_identity(identity_of(options_));
  }

 private:
  void stop_accepting_locked() {
    service_.answers->is_ending = true;
    if (!std::exchange(has_stopped_accepting_, true)) {
      io_.stop_accepting();
    }
  }

  void take(std::unique_ptr<HttpStream> stream) {
    ++service_.counters.accepted;
    const int64_t open = service_.connections.size();
    const bool is_refused = open >= service_.limits.connections;
    if (is_refused) {
      ++service_.counters.refused;
      if (open >= service_.limits.connections + kRefusedMax) {
        return;
      }
    }
    const auto connection = std::make_shared<HttpConnection>(std::move(stream), service_);
    if (service_.connections.add(connection)) {
      connection->start(is_refused ? HttpConnection::Admission::refused
                                   : HttpConnection::Admission::served);
    }
  }

  const HttpOptions options_;
  HttpIo io_;
  HandlerPool handlers_;
  HttpService service_;
  std::mutex mutex_;
  bool has_stopped_accepting_ = false;
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : state_(std::make_unique<State>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->port(); }

HttpStatistics HttpServer::statistics() const { return state_->statistics(); }

void HttpServer::stop_accepting() { state_->stop_accepting(); }

void HttpServer::stop() { state_->stop(); }

void HttpServer::reload_certificate() { state_->reload_certificate(); }

}  // namespace tessera::server
