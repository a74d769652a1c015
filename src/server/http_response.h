// Bytes of responses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace tessera::server {

// How the client finds the end of the body.
enum class BodyEnd { length, chunks, close };

struct ResponseFrame {
  BodyEnd end = BodyEnd::length;
  bool keeps_alive = true;
  bool is_http_10 = false;
  std::string_view request_id = {};
  const std::vector<HttpField>* extra_fields = nullptr;  // of the transport, e.g. for CORS
};

// 1xx, 204 and 304 never have a body.
bool may_have_body(int status);

// Status line and fields, with the last empty line. Characters that would end a field become
// blanks.
std::string response_head(const HttpResponse& response, const ResponseFrame& frame);

// One chunk of a body in chunks. `piece` is not empty: that would end the body.
void append_chunk(std::string& out, std::string_view piece);
constexpr std::string_view kLastChunk = "0\r\n\r\n";

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// {"error":{"code":413,"message":"..."}}
std::string plain_error_body(int status, std::string_view message);

}  // namespace tessera::server
