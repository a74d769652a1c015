// A fixed set of threads that share the items of one loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera {

// Threads this process may really use: its CPU affinity, cut by the cgroup quota (v1 and v2,
// rounded up). At least 1.
int available_threads();

// Runs loops on `threads` threads, the caller's included. Results of a loop must not depend on
// which thread runs which item. Bodies must not throw. One loop at a time: parallel_for is not
// reentrant and is called from one thread at a time. Subnormals are flushed inside bodies
// (base/cpu.h).
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(item, thread) for every item in [0, items); thread is in [0, threads()).
  template <typename Body>
  void parallel_for(int64_t items, const Body& body) {
    static_assert(std::is_invocable_v<const Body&, int64_t, int>);
    run(items, &call<Body>, &body);
  }

 private:
  using Function = void (*)(const void* body, int64_t item, int thread);

  template <typename Body>
  static void call(const void* body, int64_t item, int thread) {
    (*static_cast<const Body*>(body))(item, thread);
  }

  void run(int64_t items, Function function, const void* body) noexcept;
  // Claims one item of the open loop and runs it; false when none is left.
  bool run_one(int thread) noexcept;
  void work(int thread) noexcept;

  std::vector<std::thread> workers_;
  // The loop in progress, written before its items are offered. Read only by a thread that has
  // claimed an item: until that item is done, the loop cannot end.
  Function function_ = nullptr;
  const void* body_ = nullptr;
  int64_t items_ = 0;
  // Loop number in the upper half, unclaimed items in the lower one: a claim cannot hit another
  // loop. The caller waits for done items only, never for workers that slept through the loop.
  std::atomic<uint64_t> offer_{0};
  std::atomic<int64_t> done_items_{0};
  std::atomic<uint32_t> generation_{0};  // moves on once per loop, and once to stop
  std::atomic<bool> is_stopping_{false};
};

}  // namespace tessera
