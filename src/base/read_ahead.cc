#include "base/read_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tessera {

void request_pages(ByteSpan bytes) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

ReadAhead::ReadAhead(int64_t window_bytes)
    : window_bytes_(window_bytes), thread_([this] { run(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ReadAhead::push(ByteSpan bytes, Place& place) {
  {
    const std::lock_guard lock(mutex_);
    if (place.end > taken_end_) {
      return;
    }
    queued_end_ += std::ssize(bytes);
    place.end = queued_end_;
    queue_.push_back({bytes, queued_end_});
  }
  changed_.notify_one();
}

void ReadAhead::push_rows(ByteSpan table, int64_t row_bytes, std::span<const int64_t> rows) {
  {
    const std::lock_guard lock(mutex_);
    for (const int64_t row : rows) {
      queue_.push_back(
          {table.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes)), 0});
    }
  }
  changed_.notify_one();
}

bool ReadAhead::take(Place& place) {
  const int64_t end = std::exchange(place.end, 0);
  if (end == 0) {
    return false;
  }
  bool is_requested = false;
  {
    const std::lock_guard lock(mutex_);
    // What was passed over in the order may not have been requested.
    is_requested = end > taken_end_ && end <= requested_end_;
    taken_end_ = std::max(taken_end_, end);
  }
  changed_.notify_one();
  return is_requested;
}

int64_t ReadAhead::requested_bytes() const {
  const std::lock_guard lock(mutex_);
  return requested_bytes_;
}

void ReadAhead::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !is_busy_ && (queue_.empty() || !may_request()); });
}

// One item goes however large it is.
bool ReadAhead::may_request() const {
  const Item& item = queue_.front();
  return item.end == 0 || item.end - taken_end_ <= window_bytes_ || requested_end_ <= taken_end_;
}

void ReadAhead::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || (!queue_.empty() && may_request()); });
    if (is_stopping_) {
      return;
    }
    const Item item = queue_.front();
    queue_.pop_front();
    if (item.end == 0 || item.end > taken_end_) {
      is_busy_ = true;
      requested_end_ = std::max(requested_end_, item.end);
      requested_bytes_ += std::ssize(item.bytes);
      lock.unlock();
      request_pages(item.bytes);
      lock.lock();
      is_busy_ = false;
    }
    if (queue_.empty() || !may_request()) {
      idle_.notify_all();
    }
  }
}

}  // namespace tessera
