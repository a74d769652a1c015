#include "server/http_options.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::server {
namespace {

void check_range(std::string_view field, int64_t value, int64_t first, int64_t last) {
  if (value < first || value > last) {
    throw Error(ErrorCode::bad_request,
                str_cat(field, " is ", value, ", expected ", first, " to ", last));
  }
}

void check_timeout(std::string_view field, std::chrono::milliseconds value) {
  check_range(field, value.count(), 1, 24LL * 3600 * 1000);
}

}  // namespace

void check_limits(const HttpLimits& limits) {
  check_range("header_bytes", limits.header_bytes, 1 << 10, 1 << 20);
  check_range("body_bytes", limits.body_bytes, 0, int64_t{1} << 40);
  check_range("connections", limits.connections, 0, 1'000'000);
  check_range("requests_per_connection", limits.requests_per_connection, 1, int64_t{1} << 40);
  check_timeout("header_timeout", limits.header_timeout);
  check_timeout("body_timeout", limits.body_timeout);
  check_timeout("idle_timeout", limits.idle_timeout);
  check_timeout("write_timeout", limits.write_timeout);
  check_range("unsent_bytes", limits.unsent_bytes, 1 << 10, int64_t{1} << 40);
}

void check_options(const HttpOptions& options) {
  check_limits(options.limits);
  check_range("io_threads", options.io_threads, 1, 64);
  check_range("handler_threads", options.handler_threads, 1, 256);
  if (options.address.empty()) {
    throw Error(ErrorCode::bad_request, "address is empty, expected an IP address or a name");
  }
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw Error(ErrorCode::bad_request,
                options.tls_key.empty()
                    ? "tls_certificate is given without tls_key; give both or none"
                    : "tls_key is given without tls_certificate; give both or none");
  }
  for (const std::string& origin : options.allowed_origins) {
    const size_t scheme = origin.find("://");
    const bool has_path =
        scheme != std::string::npos && origin.find('/', scheme + 3) != std::string::npos;
    if (origin != "*" && (scheme == std::string::npos || has_path)) {
      throw Error(ErrorCode::bad_request, str_cat("allowed_origins has ", quoted(origin),
                                                  ", expected 'https://HOST[:PORT]' or '*'"));
    }
  }
}

}  // namespace tessera::server
