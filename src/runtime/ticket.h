// A request that was handed in: its events, its end, and the way to cancel it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/request.h"

namespace tessera {

struct RequestEvent {
  enum class Kind { delta, progress, notice };
  Kind kind = Kind::delta;
  int64_t choice = 0;  // delta: of which answer
  AnswerDelta delta = {};
  std::string text = {};  // progress: the stage ("picture", "prompt"); notice: the line
  int64_t done = 0;       // progress
  int64_t total = 0;
};

// What a request failed with. A value: an exception would be shared by two threads, and the thread
// sanitizer does not see the counters inside the standard library that make this safe.
struct Failure {
  ErrorCode code = ErrorCode::io;
  std::string message;
};

// Shared by the caller and the engine. Every function may be called from any thread.
class Ticket {
 public:
  // The next event; nothing when the request has ended and all its events were taken, or when
  // `timeout` passes first.
  std::optional<RequestEvent> next(
      std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
  bool has_ended() const;

  // Waits for the end. Throws the Error that the request failed with. Once.
  Result result();

  // The request ends soon, with FinishReason::cancelled.
  void cancel() { is_cancelled_.store(true); }
  const std::atomic<bool>& cancelled() const { return is_cancelled_; }

  // `listener` is called after every event and at the end, on the engine's thread; also at once if
  // there is something to read. It must be quick and must not call this ticket.
  void listen(std::function<void()> listener);

  // The engine's side.
  void push(RequestEvent event);
  void finish(Result result);
  void fail(Failure failure);

 private:
  static constexpr size_t kEvents = 64;

  void grow();
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;
  void notify();

  std::condition_variable changed_;
  std::shared_ptr<const std::function<void()>> listener_;
  // A ring: it grows only for a reader who is far behind.
  std::vector<RequestEvent> events_ = std::vector<RequestEvent>(kEvents);
  size_t first_ = 0;
  size_t count_ = 0;
  bool has_ended_ = false;
  Result result_;
  std::optional<Failure> failure_;
};

}  // namespace tessera
