#include "runtime/ticket.h"

#include <algorithm>
#include <utility>

namespace tessera {

std::optional<RequestEvent> Ticket::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] { return count_ > 0 || has_ended_; };
  if (timeout == std::chrono::milliseconds::max()) {
    changed_.wait(lock, is_ready);
  } else if (!changed_.wait_for(lock, timeout, is_ready)) {
    return std::nullopt;
  }
  if (count_ == 0) {
    return std::nullopt;
  }
  RequestEvent event = std::move(events_[first_]);
  first_ = (first_ + 1) % events_.size();
  --count_;
  return event;
}

bool Ticket::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

Result Ticket::result() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_ended_; });
  if (failure_.has_value()) {
    throw Error(failure_->code, failure_->message);
  }
  return std::move(result_);
}

void Ticket::listen(std::function<void()> listener) {
  {
    const std::lock_guard lock(mutex_);
    listener_ = std::make_shared<const std::function<void()>>(std::move(listener));
  }
  notify();
}

void Ticket::notify() {
  changed_.notify_all();
  std::shared_ptr<const std::function<void()>> listener;
  {
    const std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener != nullptr) {
    (*listener)();
  }
}

void Ticket::grow() {
  std::rotate(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(first_),
              events_.end());
  first_ = 0;
  events_.resize(2 * events_.size());
}

void Ticket::push(RequestEvent event) {
  {
    const std::lock_guard lock(mutex_);
    const RequestEvent& last = events_[(first_ + count_ + events_.size() - 1) % events_.size()];
    const bool is_newer = event.kind == RequestEvent::Kind::progress && count_ > 0 &&
                          last.kind == RequestEvent::Kind::progress && last.text == event.text;
    count_ -= is_newer ? 1 : 0;  // nobody needs to see every step
    if (count_ == events_.size()) {
      grow();
    }
    events_[(first_ + count_) % events_.size()] = std::move(event);
    ++count_;
  }
  notify();
}

void Ticket::finish(Result result) {
  {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    has_ended_ = true;
  }
  notify();
}

void Ticket::fail(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    has_ended_ = true;
  }
  notify();
}

}  // namespace tessera
