// A client of raw bytes for the tests of the HTTP server, and servers for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_server.h"

namespace tessera::server::test {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

struct Answer {
  int status = 0;    // 0: the connection ended or was silent for too long
  std::string head;  // with its last empty line
  std::string body;  // without the framing of chunks
  bool is_whole = false;

  // The value of a header, or "" if there is none.
  std::string header(std::string_view name) const;
};

enum class Security { plain, tls };

// Waits 20 s at most for anything.
class Client {
 public:
  explicit Client(uint16_t port, Security security = Security::plain, int receive_buffer = 0);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view bytes);
  Answer read(std::string_view method = "GET");  // the next answer
  Answer get(std::string_view path);             // with the usual Host
  Answer post(std::string_view path, std::string_view body);
  std::string read_some();    // "" when there is nothing more
  std::string read_to_end();  // until the server closes
  bool is_closed();           // by the server; waits for it
  bool has_input_within(std::chrono::milliseconds time);
  void shut_down();  // sends no more
  void reset();      // closes with a reset
  void close();
  std::string certificate_name();  // of a TLS server

 private:
  class State;
  std::unique_ptr<State> state_;
};

std::string get_text(std::string_view path, std::string_view more_headers = "");
std::string post_text(std::string_view path, std::string_view body,
                      std::string_view more_headers = "");

// Something that happens on another thread; wait() gives up after 20 s.
class Event {
 public:
  void set();
  [[nodiscard]] bool wait(int times = 1);
  int count();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// Until `condition` holds, for 20 s at most.
[[nodiscard]] bool holds_soon(const std::function<bool()>& condition);

HttpOptions local_options();  // any free port

}  // namespace tessera::server::test
