#include "server/answer_pump.h"

#include <utility>

namespace tessera::server {

AnswerPump::AnswerPump(std::chrono::milliseconds tick) : tick_(tick), thread_([this] { run(); }) {}

AnswerPump::~AnswerPump() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
}

void AnswerPump::add(const std::shared_ptr<PumpedAnswer>& answer) {
  {
    const std::lock_guard lock(mutex_);
    answers_.insert(answer);
    ready_.push_back(answer);
  }
  changed_.notify_all();
}

void AnswerPump::wake(const std::weak_ptr<PumpedAnswer>& answer) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(answer);
  }
  changed_.notify_all();
}

size_t AnswerPump::size() const {
  const std::lock_guard lock(mutex_);
  return answers_.size();
}

void AnswerPump::wait_until_empty() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return answers_.empty(); });
}

void AnswerPump::run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_tick = Clock::now() + tick_;
  std::vector<std::weak_ptr<PumpedAnswer>> ready;
  std::vector<std::shared_ptr<PumpedAnswer>> all;
  for (;;) {
    ready.clear();
    all.clear();
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, next_tick, [&] { return is_stopping_ || !ready_.empty(); });
      if (is_stopping_) {
        return;
      }
      ready.swap(ready_);
      if (Clock::now() >= next_tick) {
        next_tick = Clock::now() + tick_;
        all.assign(answers_.begin(), answers_.end());
      }
    }
    for (const std::weak_ptr<PumpedAnswer>& weak : ready) {
      const std::shared_ptr<PumpedAnswer> answer = weak.lock();
      if (answer != nullptr && !answer->take()) {
        const std::lock_guard lock(mutex_);
        answers_.erase(answer);
        ended_.notify_all();
      }
    }
    for (const std::shared_ptr<PumpedAnswer>& answer : all) {
      answer->tick();
    }
  }
}

}  // namespace tessera::server
