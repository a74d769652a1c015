#include "server/generation_answer.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/str_cat.h"
#include "server/api_error.h"
#include "server/api_wire.h"
#include "server/error_response.h"

namespace tessera::server {
namespace {

// What a user should know about the pictures, as a header: visible ASCII only.
void add_notices(const std::vector<std::string>& notices, HttpResponse& response) {
  for (const std::string& notice : notices) {
    std::string value;
    for (const char c : notice) {
      value += c >= ' ' && c < 127 ? c : '?';
    }
    response.headers.push_back({"X-Tessera-Notice", std::move(value)});
  }
}

}  // namespace

GenerationAnswer::GenerationAnswer(std::shared_ptr<Exchange> exchange,
                                   std::shared_ptr<Ticket> ticket, Call call)
    : exchange_(std::move(exchange)),
      ticket_(std::move(ticket)),
      call_(std::move(call)),
      stream_(call_.kind, call_.form, call_.choices) {}

double GenerationAnswer::ms_since_arrival() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - arrival_).count();
}

bool GenerationAnswer::take() {
  if (has_ended_) {
    return false;
  }
  const bool is_last = ticket_->has_ended();  // asked before: no event can come behind it
  while (const std::optional<RequestEvent> event = ticket_->next(std::chrono::milliseconds(0))) {
    if (event->kind == RequestEvent::Kind::notice) {
      notices_.push_back(event->text);
    }
    if (event->kind == RequestEvent::Kind::delta && first_ms_ == 0) {
      first_ms_ = ms_since_arrival();
    }
    if (call_.is_stream) {
      send(stream_.event(*event));
    }
  }
  if (is_last) {
    finish();
  }
  return !has_ended_;
}

// A quiet stream is kept open by comments. Its status is sent then, so a later failure is an event.
void GenerationAnswer::tick() {
  if (call_.is_stream && !has_ended_ && Clock::now() - last_sent_ >= call_.keep_alive) {
    send(kSseKeepAlive);
  }
}

void GenerationAnswer::send(std::string_view text) {
  if (text.empty()) {
    return;
  }
  last_sent_ = Clock::now();
  if (!has_begun_) {
    has_begun_ = true;
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    add_notices(notices_, head);
    head.body = text;
    exchange_->begin_stream(std::move(head));
  } else if (!exchange_->write(text)) {
    ticket_->cancel();
  }
}

void GenerationAnswer::finish() {
  has_ended_ = true;
  try {
    finish_with(ticket_->result());
  } catch (const std::exception& error) {
    fail(error);
  }
}

void GenerationAnswer::finish_with(const Result& result) {
  if (exchange_->is_gone()) {
    return end("cancelled", result, 499);  // nobody is told
  }
  if (result.is_cancelled && !result.is_late) {
    return fail(ApiError(ApiFault::draining, "the server is shutting down; ask again"));
  }
  // Counted before the client can know, and when nothing can fail any more.
  const auto count = [&] {
    end(result.is_late ? "deadline" : finish_reason_name(result.choices.front().finish_reason),
        result, 200);
  };
  if (call_.is_stream) {
    const auto last = stream_.end(result);
    count();
    send(last);
    exchange_->end_stream();
  } else {
    HttpResponse response;
    add_notices(notices_, response);
    response.body = wire_text(call_.kind == AnswerStream::Kind::chat
                                  ? chat_completion_json(call_.form, result)
                                  : text_completion_json(call_.form, result));
    count();
    exchange_->respond(std::move(response));
  }
}

void GenerationAnswer::fail(const std::exception& error) {
  const bool is_chat = call_.kind == AnswerStream::Kind::chat;
  const ApiError told = api_error_of(error, {.request_id = call_.form.request_id,
                                             .stage = "generation",
                                             .prompt_field = is_chat ? "messages" : "prompt"});
  if (told.status() >= 500) {
    log_line(LogLevel::error,
             str_cat("request ", call_.form.request_id, " failed: ", error.what()));
  }
  end("error", {}, told.status());
  if (has_begun_) {
    send(stream_.fail(told));
    exchange_->end_stream();
  } else {
    exchange_->respond(error_response(told));
  }
}

void GenerationAnswer::end(std::string_view reason, const Result& result, int status) {
  const ServedAnswer served = {
      .endpoint = call_.kind == AnswerStream::Kind::chat ? "chat" : "completion",
      .reason = reason,
      .prompt_tokens = result.prompt_tokens,
      .answer_tokens = result.completion_tokens(),
      .queue_ms = result.queue_ms,
      .first_ms = first_ms_,
      .end_ms = ms_since_arrival()};
  if (call_.on_end) {
    call_.on_end(served, status);
  }
}

}  // namespace tessera::server
