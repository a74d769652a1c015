// HTTP/1.1 server, with TLS if it is given a certificate. Knows nothing of what is served.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "server/http_exchange.h"
#include "server/http_options.h"

namespace tessera::server {

// Runs on one of HttpOptions::handler_threads; may answer later and from elsewhere. What it throws
// is logged and becomes a 500.
using HttpHandler = std::function<void(const std::shared_ptr<Exchange>&)>;

struct HttpStatistics {
  int64_t open_connections;
  int64_t max_connections;
  int64_t accepted_connections;
  int64_t refused_connections;  // over the limit
  int64_t accept_failures;      // for want of descriptors or memory
  int64_t requests;             // that went to the handler, and preflights
  int64_t active_requests;      // not completely answered
  int64_t transport_errors;     // requests that the transport refused
  int64_t timeouts;             // of requests that came too slowly
  int64_t dropped_readers;      // clients that did not take in what was sent
  int64_t left_clients;         // that were not completely answered, also because of stop()
  int64_t received_bytes;
  int64_t sent_bytes;
};

class HttpServer {
 public:
  // Serves when it returns. Throws Error{bad_request} for options, Error{bad_file} for
  // certificates, Error{io} if it cannot listen. Raises the process's limit of open files.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  HttpStatistics statistics() const;

  // Closes the port. Requests that have come are answered, each as the last one of its connection.
  void stop_accepting();
  // Closes everything. Exchanges learn that their clients are gone; when it returns, no handler
  // runs and none will. Not from a handler or a callback of an exchange.
  void stop();

  // Reads the files again, for connections from now on. Throws Error{bad_file} and keeps what it
  // had if they do not fit.
  void reload_certificate();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::server
