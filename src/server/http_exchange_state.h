// What an Exchange shares with its connection: the request, and the bytes of the answer that the
// connection has not sent. Internal to the transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"
#include "server/http_response.h"

namespace tessera::server {

// The same for all exchanges of a server, and outlives it with them.
struct AnswerRules {
  std::function<std::string(int status, std::string_view message)> error_body;
  int64_t unsent_bytes;
  std::atomic<bool> is_ending = false;  // no connection is kept alive any more
};

struct ExchangeTraits {
  std::vector<HttpField> extra_fields;
  bool is_http_10 = false;
  bool is_head = false;
  bool keeps_alive = true;
  bool has_left = false;  // the client's sending side is closed
};

class ExchangeState {
 public:
  // `wake` is called, from any thread, when output() has something new.
  ExchangeState(std::shared_ptr<const AnswerRules> rules, HttpRequest request,
                ExchangeTraits traits, std::function<void()> wake);

  // The application's side: http_exchange.h.
  HttpRequest request;
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  bool write(std::string_view piece);
  void end_stream();
  bool is_gone() const;
  void on_gone(std::function<void()> callback);
  void abandon(std::string_view message);  // 500, or a stream that is cut off

  // The connection's side.
  struct Output {
    std::string bytes;
    bool is_last = false;      // nothing comes behind these bytes
    bool is_cut = false;       // close behind the bytes, without the end of the body
    bool keeps_alive = false;  // if is_last
  };
  Output take_output();
  void sent(int64_t bytes);  // of what was taken
  bool is_too_slow() const;
  bool is_streaming() const;
  void client_left();  // it may still read
  void finish();       // everything was sent
  void close();        // nothing will be sent

 private:
  enum class Phase { unanswered, streaming, ended };

  ResponseFrame frame_of(const HttpResponse& response, BodyEnd end);
  void respond_locked(const HttpResponse& response);
  void wake_locked();
  void leave();  // tells the application, once

  const std::shared_ptr<const AnswerRules> rules_;
  const ExchangeTraits traits_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;  // empty: the connection wants nothing more
  bool is_woken_ = false;
  Phase phase_ = Phase::unanswered;
  BodyEnd body_end_ = BodyEnd::length;
  bool keeps_alive_;
  bool is_gone_;
  bool is_too_slow_ = false;
  bool is_cut_ = false;
  bool is_finished_ = false;
  std::string pending_;
  int64_t taken_bytes_ = 0;  // by the connection, and not sent yet
  std::vector<std::function<void()>> gone_callbacks_;
};

}  // namespace tessera::server
