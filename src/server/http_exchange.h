// One request and its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/http_message.h"

namespace tessera::server {

class ExchangeState;

// Shared; every function may be called from any thread, also after the server has gone. What comes
// after the answer, or after the client has left, has no effect. An exchange that is dropped
// unanswered is answered 500; a stream that is dropped before its end is cut off, so that the
// client can tell.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const;
  // Moves the body out of the request, to free it before the answer. For one thread, once.
  std::string take_body();

  void respond(HttpResponse response);

  // The body of `head` is the first piece.
  void begin_stream(HttpResponse head);
  // False: nobody reads any more, or too slowly (HttpLimits::unsent_bytes). Never blocks.
  bool write(std::string_view piece);
  void end_stream();
  void fail();  // 500, or a stream that is cut off

  // The client has left, or does not take in what is sent. A client that has only closed its
  // sending side counts as gone; respond() still reaches it.
  bool is_gone() const;
  // Called once when the client leaves before the whole answer has been sent; at once if it has
  // left. Runs on a thread of the transport: short, and without waiting for anything.
  void on_gone(std::function<void()> callback);

 private:
  std::shared_ptr<ExchangeState> state_;
};

}  // namespace tessera::server
