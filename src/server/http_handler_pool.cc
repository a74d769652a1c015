#include "server/http_handler_pool.h"

#include <utility>

#include "base/log.h"
#include "base/str_cat.h"

namespace tessera::server {

HandlerPool::HandlerPool(int threads, Handler handler) : handler_(std::move(handler)) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

HandlerPool::~HandlerPool() { stop(); }

void HandlerPool::add(std::shared_ptr<Exchange> exchange) {
  {
    const std::lock_guard guard(mutex_);
    if (!is_stopping_) {
      waiting_.push_back(std::move(exchange));
    }
  }
  changed_.notify_one();
}

void HandlerPool::stop() {
  std::deque<std::shared_ptr<Exchange>> dropped;  // answered outside the lock
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
    dropped.swap(waiting_);
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void HandlerPool::run() {
  while (true) {
    std::shared_ptr<Exchange> exchange;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (is_stopping_) {
        return;
      }
      exchange = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      handler_(exchange);
    } catch (const std::exception& error) {
      log_line(LogLevel::error, str_cat("http: ", exchange->request().method, " ",
                                        exchange->request().path, ": ", error.what()));
      exchange->fail();
    }
  }
}

}  // namespace tessera::server
