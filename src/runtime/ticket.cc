#include "runtime/ticket.h"

#include <utility>

namespace tessera {

std::optional<RequestEvent> Ticket::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] { return !events_.empty() || has_ended_; };
  if (timeout == std::chrono::milliseconds::max()) {
    changed_.wait(lock, is_ready);
  } else if (!changed_.wait_for(lock, timeout, is_ready)) {
    return std::nullopt;
  }
  if (events_.empty()) {
    return std::nullopt;
  }
  RequestEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

bool Ticket::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

Result Ticket::result() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_ended_; });
  if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
  return std::move(result_);
}

void Ticket::push(RequestEvent event) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_newer = event.kind == RequestEvent::Kind::progress && !events_.empty() &&
                          events_.back().kind == RequestEvent::Kind::progress &&
                          events_.back().text == event.text;
    if (is_newer) {
      events_.back() = std::move(event);  // nobody needs to see every step
    } else {
      events_.push_back(std::move(event));
    }
  }
  changed_.notify_all();
}

void Ticket::finish(Result result) {
  {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    has_ended_ = true;
  }
  changed_.notify_all();
}

void Ticket::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    has_ended_ = true;
  }
  changed_.notify_all();
}

}  // namespace tessera
