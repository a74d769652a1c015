// Reads one request, in pieces as they arrive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_rules.h"

namespace tessera::server {

class RequestParser {
 public:
  RequestParser();
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // All of the head, as HeadScanner found it. Nothing if it is one; otherwise head() has what was
  // understood of it, and the parser takes nothing more.
  std::optional<HttpRefusal> read_head(std::string_view bytes);
  const RequestHead& head() const;
  RequestHead take_head();

  // Takes in the first bytes of the body and says how many; the rest is given again together with
  // what arrives next. A chunk's line, or the trailer, has at most `line_bytes`.
  int64_t read_body(std::string_view bytes, int64_t body_bytes, int64_t line_bytes,
                    std::optional<HttpRefusal>& refusal);
  bool is_done() const;
  std::string take_body();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tessera::server
