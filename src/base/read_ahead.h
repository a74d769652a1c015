// Requests pages of mapped files from the disk before they are touched.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

namespace tessera {

using ByteSpan = std::span<const std::byte>;

// Starts reading these bytes of a mapped file into the page cache (MADV_WILLNEED). The caller pays
// for making room there, about 0.25 ms per MiB that is not cached, and not for the disk.
void request_pages(ByteSpan bytes);

// A thread that requests pages in the order in which they will be used, at most `window_bytes`
// ahead of the use: what is read too early pushes out what is needed first. All calls are safe from
// any thread; a place belongs to one at a time.
class ReadAhead {
 public:
  // Where a range stands in the queue; 0 for one that does not. Lives as long as the thread.
  struct Place {
    int64_t end = 0;  // bytes queued from the start up to the range's end
  };

  explicit ReadAhead(int64_t window_bytes);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The range goes to the queue's end, unless it stands in it.
  void push(ByteSpan bytes, Place& place);
  // Parts of tables, which are small: outside the order and the window.
  void push_rows(ByteSpan table, int64_t row_bytes, std::span<const int64_t> rows);
  // The range is used now: it leaves the queue, and what was queued before it is not waited for any
  // longer. Whether its pages have been requested.
  bool take(Place& place);

  int64_t requested_bytes() const;
  void wait_until_idle();  // nothing is left to request

 private:
  struct Item {
    ByteSpan bytes;
    int64_t end = 0;  // 0: rows
  };
  void run();
  bool may_request() const;  // the first item

  const int64_t window_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::deque<Item> queue_;
  int64_t queued_end_ = 0;
  int64_t requested_end_ = 0;
  int64_t taken_end_ = 0;
  int64_t requested_bytes_ = 0;
  bool is_busy_ = false;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace tessera
