// Requests and responses as the application sees them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

struct HttpField {
  std::string name;
  std::string value;
};

// The value of the first field of this name (in any case), or nullptr.
const std::string* find_field(const std::vector<HttpField>& fields, std::string_view name);

struct HttpRequest {
  std::string method;              // "GET"; any token, as it came
  std::string path;                // begins with "/", percent-decoded, no segment is ".."
  std::string query;               // behind the "?", as it came
  std::vector<HttpField> headers;  // in the order of their arrival, values without blanks around
  std::string body;
  std::string id;    // the client's X-Request-Id if it can be used, else a random one
  std::string peer;  // "127.0.0.1:54321"

  // The value of the first header of this name (in any case), or nullptr.
  const std::string* header(std::string_view name) const { return find_field(headers, name); }
};

// The transport adds the fields that belong to it: length, connection, date, request id,
// protection.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";  // empty: no such field
  std::vector<HttpField> headers = {};
  std::string body = {};
};

}  // namespace tessera::server
