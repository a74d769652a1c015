// What the transport lets through to the application, and what it answers itself. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace tessera::server {

// An answer instead of the application's; the connection is closed behind it.
struct HttpRefusal {
  int status;
  std::string message;  // for the client, one line
};

// Where the head of a request ends, and whether its bytes can be one. Stricter than RFC 9112 has to
// be: lines end in CR LF, no line is folded, no control characters. Takes the bytes from the start
// of the request, and goes on where it stopped when there are more.
class HeadScanner {
 public:
  // Bytes of the head with its last empty line; 0: not all there yet.
  int64_t scan(std::string_view bytes);
  bool is_bad() const { return is_bad_; }  // for good; the answer is 400
  bool has_line() const { return line_begin_ > 0; }

 private:
  size_t next_ = 0;        // first byte that has not been looked at
  size_t line_begin_ = 0;  // of the line that next_ is in
  bool is_bad_ = false;
};

struct RequestHead {
  std::string method = {};
  std::string target = {};
  int minor_version = 1;  // of HTTP/1
  std::vector<HttpField> fields = {};
  std::optional<int64_t> content_length = {};  // none: no such field
  bool is_chunked = false;
  bool keeps_alive = true;  // what the client asks for
};

struct RequestTarget {
  std::string path;   // decoded
  std::string query;  // as it came
  std::string host;   // of the form http://HOST/PATH, with its port; empty: other forms
};

struct RequestRules {
  std::vector<std::string> allowed_hosts = {};    // lower case, without ports
  std::vector<std::string> allowed_origins = {};  // lower case
  int64_t body_bytes = 0;
};

// Nothing if the request may go on; then `target` is set. `local_address` is the IP address that
// the connection came to.
std::optional<HttpRefusal> check_head(const RequestHead& head, const RequestRules& rules,
                                      std::string_view local_address, RequestTarget& target);

// The parts of check_head.
std::optional<HttpRefusal> check_framing(const RequestHead& head);
std::optional<HttpRefusal> check_hosts(const RequestHead& head, std::string_view target_host,
                                       const RequestRules& rules, std::string_view local_address);
std::optional<HttpRefusal> check_content(const RequestHead& head);
std::optional<HttpRefusal> parse_target(std::string_view method, std::string_view text,
                                        RequestTarget& target);

// Host and port apart, the host in lower case with the brackets of IPv6; nothing if it is no host.
std::optional<std::string> host_without_port(std::string_view text);
bool is_loopback_address(std::string_view address);

// The client waits for "100 Continue" before it sends the body.
bool expects_continue(const RequestHead& head);

// A request by which a browser asks whether a page may make another one.
bool is_preflight(const RequestHead& head);

// Fields that let a page of an allowed origin see the answer; of a preflight also what it may do.
// Empty if CORS is off.
std::vector<HttpField> cors_fields(const RequestHead& head, const RequestRules& rules);
bool allows_origin(const RequestHead& head, const RequestRules& rules);

// The client's X-Request-Id if it is 1 to 128 visible ASCII characters, else 128 random bits.
std::string request_id(const std::vector<HttpField>& fields);

}  // namespace tessera::server
