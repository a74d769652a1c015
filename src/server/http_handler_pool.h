// The threads that run the application's handler. Internal to the transport.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http_exchange.h"

namespace tessera::server {

class HandlerPool {
 public:
  using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

  HandlerPool(int threads, Handler handler);
  ~HandlerPool();

  // Each connection has one exchange at a time, so the queue is no longer than there are
  // connections.
  void add(std::shared_ptr<Exchange> exchange);

  // Forgets what waits and returns when no handler runs. Not from a handler.
  void stop();

 private:
  void run();

  const Handler handler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Exchange>> waiting_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
