// Which bytes of mapped files are in memory: a model whose weights exceed it runs from its files.
//
// Pages are read ahead in the order of their use, and with a limit those that are needed last leave
// the process before others come, so that its resident memory (VmRSS, all of it) stays below.
// Nothing here changes a result: a page that was dropped is read again when it is touched.
//
// Which range is needed last: a range that is used every n uses is expected n uses after its last
// one; when that has passed, its chance fades with time. One that was used once is needed last of
// all, the oldest first. The layers of a model are a cycle that is longer than memory: dropping
// what was used least recently would drop just what comes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/process_memory.h"
#include "base/read_ahead.h"
#include "base/residency_statistics.h"

namespace tessera {

struct ResidencyOptions {
  int64_t limit_bytes = 0;  // of the process's resident memory; 0: none, pages are only read ahead
  int64_t read_ahead_bytes = int64_t{256} << 20;  // requested before they are used, at most
};

// Ranges that lie in none of the files are nobody's: they are ignored everywhere. Uses,
// expectations and locks come from one thread at a time (whoever computes with the model);
// statistics() from any.
class Residency {
 public:
  // `files` are the bytes of the MappedFiles, which outlive this object.
  Residency(const ResidencyOptions& options, std::span<const ByteSpan> files);

  // The ranges are read until it goes: room was made for them before, and they stay. Uses may be
  // nested. Without a residency it does nothing.
  class Use {
   public:
    Use(Residency* residency, std::span<const ByteSpan> ranges);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Residency* residency_;
    size_t first_ = 0;
  };

  // The most that the ranges of the next use may take; the caller cuts larger ones.
  int64_t budget_bytes() const;
  // What a range takes at most: a touch maps pages around it too.
  static int64_t most_bytes(ByteSpan bytes) {
    return bytes.empty() ? 0 : std::ssize(bytes) + 2 * kTouchBytes;
  }

  // The ranges will be used, in this order.
  void expect(std::span<const ByteSpan> ranges);
  // These rows of a table will be read, few of many. Such a table takes a small share of the memory
  // at most.
  void expect_rows(ByteSpan table, int64_t row_bytes, std::span<const int64_t> rows);

  // Reads the ranges and keeps them in memory for good. Throws Error{bad_request} that names
  // RLIMIT_MEMLOCK when the system does not allow it.
  void lock(std::span<const ByteSpan> ranges);

  // Throws Error{bad_request} with the smallest limit that works if this one leaves no room for a
  // use of `largest_use_bytes` beside `other_bytes` of memory that is yet to be taken.
  void check_limit(int64_t other_bytes, int64_t largest_use_bytes) const;

  ResidencyStatistics statistics() const;

 private:
  // A touch maps the cached pages of the aligned piece around it (fault_around_bytes of the
  // kernel).
  static constexpr int64_t kTouchBytes = 64 << 10;

  struct Range {
    ByteSpan window;  // the pages that touching it may map
    ReadAhead::Place place;
    int64_t counted_bytes = 0;  // of the window, taken as resident
    uint64_t last_use = 0;
    uint64_t interval = 0;  // uses between its uses, averaged; 0: used once
    int users = 0;
    bool is_locked = false;
    bool is_sparse = false;
  };

  const ByteSpan* file_of(ByteSpan bytes) const;
  Range* find(ByteSpan bytes);
  void begin_use(std::span<const ByteSpan> ranges);
  void end_use(size_t first);
  void request_missed();
  void count(Range& range, int64_t bytes);
  void make_room(int64_t bytes);
  int64_t drop_last_needed(int64_t bytes);
  void drop(Range& range);
  uint64_t uses_until_needed(const Range& range) const;
  int64_t room_bytes() const;

  const int64_t limit_bytes_;
  std::vector<ByteSpan> files_;  // by address
  ResidentMemory memory_;
  const int64_t memory_at_start_;
  const int64_t faults_at_start_;
  mutable std::mutex mutex_;  // all below
  std::unordered_map<const std::byte*, Range> ranges_;
  std::vector<Range*> in_use_;
  std::vector<Range*> resident_;  // all with counted bytes, and some that were dropped
  std::vector<Range*> candidates_;
  std::vector<ByteSpan> missed_;
  uint64_t uses_ = 0;
  int64_t counted_bytes_ = 0;
  int64_t in_use_bytes_ = 0;
  ResidencyStatistics statistics_;
  ReadAhead read_ahead_;  // last: its thread uses the places of ranges_
};

}  // namespace tessera
