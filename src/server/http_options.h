// What an HTTP server is told when it is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

struct HttpLimits {
  int64_t header_bytes = int64_t{64}
                         << 10;            // request line and headers; what a client may send ahead
  int64_t body_bytes = int64_t{48} << 20;  // of one request
  // Open at once; more are answered 503. 0: what the descriptors of the process allow, which is
  // raised as far as it goes.
  int64_t connections = 0;
  int64_t requests_per_connection = 10'000;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request
  std::chrono::milliseconds body_timeout{60'000};    // for all of the body
  std::chrono::milliseconds idle_timeout{75'000};    // between requests, and before the first
  std::chrono::milliseconds write_timeout{30'000};   // of a client that takes in nothing
  // A stream with more than this waiting for its client is cut off at the next piece.
  int64_t unsent_bytes = int64_t{1} << 20;
};

struct HttpOptions {
  std::string address = "127.0.0.1";  // an IP address or a name that has one
  uint16_t port = 8080;               // 0: any that is free
  // Names and addresses that a Host header may have, besides the address that the connection came
  // to and, if that is loopback, the names of loopback. "*": any. Ports are not looked at.
  std::vector<std::string> allowed_hosts = {};
  // Web pages that may call the server, "https://page.example"; "*": any; empty: no CORS.
  std::vector<std::string> allowed_origins = {};
  std::string tls_certificate = {};  // PEM file, the chain; empty: plain HTTP
  std::string tls_key = {};          // PEM file
  int io_threads = 1;
  int handler_threads = 2;
  HttpLimits limits = {};
  // The body (JSON) of answers that the transport gives itself: 400, 403, 408, 413, 414, 415, 417,
  // 431, 500, 503. Called from several threads; empty: a short JSON object.
  std::function<std::string(int status, std::string_view message)> error_body = {};
};

// Throw Error{bad_request} that names the field.
void check_limits(const HttpLimits& limits);
void check_options(const HttpOptions& options);  // with its limits

}  // namespace tessera::server
