// A client of raw sockets for the black-box tests of the server: HTTP/1.1 with bodies in chunks,
// and a reader of event streams that checks the framing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tessera::test {

inline constexpr int kPatienceMs = 600'000;  // for what a server should do at once

struct HttpAnswer {
  int status = 0;    // 0: the connection ended, or was silent for too long, before the head came
  std::string head;  // with its last empty line
  std::string body;
  std::vector<std::string> chunks;  // of the body, if it came in chunks
  bool is_whole = false;            // the end of the body has come

  std::string header(std::string_view name) const;  // "" if there is none
  io::Json json() const;                            // of the body; fails the test if it is none
};

using HttpFields = std::vector<std::pair<std::string, std::string>>;

// The text of a request. Without other fields it has a Host, and a Content-Type and a length if
// there is a body; a field in `more` of the same name replaces them.
std::string http_request(std::string_view method, std::string_view path, std::string_view body = {},
                         const HttpFields& more = {});

// One connection to 127.0.0.1. Waits two minutes at most for anything.
class HttpConnection {
 public:
  explicit HttpConnection(int port);
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool is_open() const { return socket_ >= 0; }
  void send(std::string_view bytes);
  HttpAnswer read();  // the rest of an answer that read_until() began, or the next one
  // The answer so far, when its body has `text`, or has ended.
  HttpAnswer read_until(std::string_view text);
  HttpAnswer ask(std::string_view method, std::string_view path, std::string_view body = {},
                 const HttpFields& more = {});
  bool is_closed_by_server();  // waits for it
  void close();
  void reset();  // closes with a reset

 private:
  bool receive();
  bool take_head();
  bool take_body();

  int socket_ = -1;
  std::string bytes_;  // received and not used
  HttpAnswer answer_;  // as far as it has come
};

// An event stream as it came: every piece of it is one event "data: JSON" or a comment, the last
// event is [DONE], and no chunk splits a code point. Failures of this fail the test.
struct EventStream {
  std::vector<io::Json> events;  // without [DONE]
  int64_t comments = 0;
};
EventStream events_of(const HttpAnswer& answer);

// An answer put together again from a stream of chat.completion.chunk or text_completion events, as
// it would have been without "stream". The order of the events is checked: role, reasoning,
// content, calls, end per choice; then the usage.
io::Json joined_chat(const EventStream& stream);
io::Json joined_text(const EventStream& stream);

bool is_utf8(std::string_view text);

}  // namespace tessera::test
