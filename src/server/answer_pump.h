// From the events of the engine to the sockets of the clients, on a thread of its own: the step
// loop only says that there is something to read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tessera::server {

// One answer that is under way.
class PumpedAnswer {
 public:
  virtual ~PumpedAnswer() = default;
  // Takes what has come. Returns whether there will be more. On the pump's thread.
  virtual bool take() = 0;
  // Called every now and then.
  virtual void tick() = 0;
};

class AnswerPump {
 public:
  explicit AnswerPump(std::chrono::milliseconds tick);
  ~AnswerPump();  // lets go of what is under way
  AnswerPump(const AnswerPump&) = delete;
  AnswerPump& operator=(const AnswerPump&) = delete;

  void add(const std::shared_ptr<PumpedAnswer>& answer);  // and takes from it at once
  // From any thread, quick.
  void wake(const std::weak_ptr<PumpedAnswer>& answer);
  size_t size() const;  // answers that are under way
  void wait_until_empty();

 private:
  void run();

  std::chrono::milliseconds tick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ended_;
  std::set<std::shared_ptr<PumpedAnswer>> answers_;
  std::vector<std::weak_ptr<PumpedAnswer>> ready_;
  bool is_stopping_ = false;
  std::jthread thread_;
};

}  // namespace tessera::server
