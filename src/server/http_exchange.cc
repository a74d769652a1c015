#include "server/http_exchange.h"

#include <utility>

#include "base/log.h"
#include "base/str_cat.h"
#include "server/http_exchange_state.h"

namespace tessera::server {
namespace {

void call_guarded(const std::function<void()>& callback) {
  try {
    callback();
  } catch (const std::exception& error) {
    log_line(LogLevel::error, str_cat("http: what is called when a client leaves: ", error.what()));
  }
}

}  // namespace

Exchange::~Exchange() { state_->abandon("the request was dropped without an answer"); }

const HttpRequest& Exchange::request() const { return state_->request; }

std::string Exchange::take_body() { return std::exchange(state_->request.body, {}); }

void Exchange::respond(HttpResponse response) { state_->respond(std::move(response)); }

void Exchange::begin_stream(HttpResponse head) { state_->begin_stream(std::move(head)); }

bool Exchange::write(std::string_view piece) { return state_->write(piece); }

void Exchange::end_stream() { state_->end_stream(); }

void Exchange::fail() { state_->abandon("the server failed to answer"); }

bool Exchange::is_gone() const { return state_->is_gone(); }

void Exchange::on_gone(std::function<void()> callback) { state_->on_gone(std::move(callback)); }

ExchangeState::ExchangeState(std::shared_ptr<const AnswerRules> rules, HttpRequest given_request,
                             ExchangeTraits traits, std::function<void()> wake)
    : request(std::move(given_request)),
      rules_(std::move(rules)),
      traits_(std::move(traits)),
      wake_(std::move(wake)),
      keeps_alive_(traits_.keeps_alive),
      is_gone_(traits_.has_left) {}

ResponseFrame ExchangeState::frame_of(const HttpResponse& response, BodyEnd end) {
  if (end == BodyEnd::chunks && traits_.is_http_10) {
    end = BodyEnd::close;
  }
  body_end_ = may_have_body(response.status) ? end : BodyEnd::length;
  keeps_alive_ = keeps_alive_ && body_end_ != BodyEnd::close && !rules_->is_ending;
  return {.end = body_end_,
          .keeps_alive = keeps_alive_,
          .is_http_10 = traits_.is_http_10,
          .request_id = request.id,
          .extra_fields = &traits_.extra_fields};
}

void ExchangeState::respond_locked(const HttpResponse& response) {
  pending_ = response_head(response, frame_of(response, BodyEnd::length));
  if (!traits_.is_head && may_have_body(response.status)) {
    pending_ += response.body;
  }
  phase_ = Phase::ended;
  wake_locked();
}

void ExchangeState::wake_locked() {
  if (wake_ != nullptr && !is_woken_) {
    is_woken_ = true;
    wake_();
  }
}

void ExchangeState::respond(HttpResponse response) {
  const std::lock_guard guard(mutex_);
  if (phase_ == Phase::unanswered && wake_ != nullptr) {
    respond_locked(response);
  }
}

void ExchangeState::begin_stream(HttpResponse head) {
  const std::lock_guard guard(mutex_);
  if (phase_ != Phase::unanswered || wake_ == nullptr || is_gone_) {
    return;
  }
  phase_ = Phase::streaming;
  pending_ = response_head(head, frame_of(head, BodyEnd::chunks));
  if (traits_.is_head || !may_have_body(head.status)) {
    phase_ = Phase::ended;
  } else if (!head.body.empty()) {
    if (body_end_ == BodyEnd::chunks) {
      append_chunk(pending_, head.body);
    } else {
      pending_ += head.body;
    }
  }
  wake_locked();
}

bool ExchangeState::write(std::string_view piece) {
  const std::lock_guard guard(mutex_);
  if (is_gone_ || wake_ == nullptr) {
    return false;
  }
  if (phase_ != Phase::streaming || piece.empty()) {
    return phase_ != Phase::unanswered;  // of HEAD nothing is sent
  }
  if (std::ssize(pending_) + taken_bytes_ > rules_->unsent_bytes) {
    is_too_slow_ = true;
    is_gone_ = true;
    is_woken_ = false;  // the last call may wait for a write that does not end
    wake_locked();
    return false;
  }
  if (body_end_ == BodyEnd::chunks) {
    append_chunk(pending_, piece);
  } else {
    pending_ += piece;
  }
  wake_locked();
  return true;
}

void ExchangeState::end_stream() {
  const std::lock_guard guard(mutex_);
  if (phase_ != Phase::streaming || wake_ == nullptr) {
    return;
  }
  if (body_end_ == BodyEnd::chunks) {
    pending_ += kLastChunk;
  }
  phase_ = Phase::ended;
  wake_locked();
}

bool ExchangeState::is_gone() const {
  const std::lock_guard guard(mutex_);
  return is_gone_;
}

void ExchangeState::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard guard(mutex_);
    if (is_finished_) {
      return;
    }
    // A reader that is too slow is gone, but leave() has still to come.
    if (!is_gone_ || (is_too_slow_ && wake_ != nullptr)) {
      gone_callbacks_.push_back(std::move(callback));
      return;
    }
  }
  call_guarded(callback);
}

void ExchangeState::abandon(std::string_view message) {
  const std::lock_guard guard(mutex_);
  if (wake_ == nullptr || phase_ == Phase::ended) {
    return;
  }
  if (phase_ == Phase::unanswered) {
    respond_locked({.status = 500, .body = rules_->error_body(500, message)});
  } else {
    is_cut_ = true;
    phase_ = Phase::ended;
    wake_locked();
  }
}

ExchangeState::Output ExchangeState::take_output() {
  const std::lock_guard guard(mutex_);
  is_woken_ = false;
  Output out{.bytes = std::exchange(pending_, {}),
             .is_last = phase_ == Phase::ended,
             .is_cut = is_cut_,
             .keeps_alive = keeps_alive_};
  taken_bytes_ += std::ssize(out.bytes);
  return out;
}

void ExchangeState::sent(int64_t bytes) {
  const std::lock_guard guard(mutex_);
  taken_bytes_ -= bytes;
}

bool ExchangeState::is_too_slow() const {
  const std::lock_guard guard(mutex_);
  return is_too_slow_;
}

bool ExchangeState::is_streaming() const {
  const std::lock_guard guard(mutex_);
  return phase_ == Phase::streaming;
}

void ExchangeState::leave() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard guard(mutex_);
    is_gone_ = true;
    callbacks.swap(gone_callbacks_);
  }
  for (const std::function<void()>& callback : callbacks) {
    call_guarded(callback);
  }
}

void ExchangeState::client_left() { leave(); }

void ExchangeState::finish() {
  std::vector<std::function<void()>> callbacks;  // destroyed outside the lock
  const std::lock_guard guard(mutex_);
  is_finished_ = true;
  wake_ = nullptr;
  callbacks.swap(gone_callbacks_);
}

void ExchangeState::close() {
  {
    const std::lock_guard guard(mutex_);
    wake_ = nullptr;
  }
  leave();
}

}  // namespace tessera::server
