// The answer to one generation request: events of its ticket in, a body or a stream out.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "server/answer_pump.h"
#include "server/api_answer.h"
#include "server/api_stream.h"
#include "server/http_exchange.h"
#include "server/metrics.h"

namespace tessera::server {

class GenerationAnswer : public PumpedAnswer {
 public:
  struct Call {
    AnswerStream::Kind kind = AnswerStream::Kind::chat;
    AnswerForm form = {};
    int64_t choices = 1;
    bool is_stream = false;
    std::chrono::milliseconds keep_alive{0};
    // Called once at the end: how it ended and with which status.
    std::function<void(const ServedAnswer& answer, int status)> on_end = {};
  };

  GenerationAnswer(std::shared_ptr<Exchange> exchange, std::shared_ptr<Ticket> ticket, Call call);

  bool take() override;
  void tick() override;

 private:
  using Clock = std::chrono::steady_clock;

  void send(std::string_view text);
  void finish();
  void finish_with(const Result& result);
  void fail(const std::exception& error);
  void end(std::string_view reason, const Result& result, int status);
  double ms_since_arrival() const;

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<Ticket> ticket_;
  Call call_;
  AnswerStream stream_;
  Clock::time_point arrival_ = Clock::now();
  Clock::time_point last_sent_ = arrival_;
  double first_ms_ = 0;
  std::vector<std::string> notices_;
  bool has_begun_ = false;  // the stream: its status is sent
  bool has_ended_ = false;
};

}  // namespace tessera::server
