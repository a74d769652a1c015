// When work on untrusted bytes has to stop.
#pragma once

#include <atomic>
#include <chrono>

namespace tessera::intake {

// Looked at between rows, strips, fed chunks and received blocks.
struct Deadline {
  using Clock = std::chrono::steady_clock;
  Clock::time_point at = Clock::time_point::max();
  const std::atomic<bool>* cancel = nullptr;  // set by somebody who no longer wants the result

  bool is_over() const noexcept {
    return (cancel != nullptr && cancel->load(std::memory_order_relaxed)) ||
           (at != Clock::time_point::max() && Clock::now() >= at);
  }
};

}  // namespace tessera::intake
