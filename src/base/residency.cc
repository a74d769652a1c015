#include "base/residency.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

// Kept free below the limit: the kernel maps whole pieces of 2 MiB where the page cache has them,
// and what else the process takes (activations, code) is seen at the next use only.
constexpr int64_t kLeastHeadroom = int64_t{8} << 20;
constexpr int64_t kHeadroomShare = 32;
// Of the room for weights: the most that a table of rows takes.
constexpr int64_t kSparseShare = 16;
constexpr int64_t kSmallestBudget = int64_t{1} << 20;

int64_t headroom_bytes(int64_t limit) { return kLeastHeadroom + limit / kHeadroomShare; }

uintptr_t address_of(const std::byte* p) { return reinterpret_cast<uintptr_t>(p); }

bool is_inside(ByteSpan file, ByteSpan bytes) {
  return bytes.data() >= file.data() && bytes.data() + bytes.size() <= file.data() + file.size();
}

// `bytes` rounded outward to aligned pieces, and to the pages of the file that has them.
ByteSpan rounded_outward(ByteSpan bytes, int64_t piece, ByteSpan file) {
  const uintptr_t size = static_cast<uintptr_t>(piece);
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t file_begin = address_of(file.data());
  const uintptr_t file_end = (address_of(file.data() + file.size()) + page - 1) / page * page;
  const uintptr_t begin = std::max(address_of(bytes.data()) / size * size, file_begin);
  const uintptr_t end =
      std::min((address_of(bytes.data() + bytes.size()) + size - 1) / size * size, file_end);
  return {file.data() + (begin - file_begin), end - begin};
}

void* pages_of(ByteSpan window) { return const_cast<std::byte*>(window.data()); }

int64_t major_faults() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

std::string lock_refusal(int64_t wanted, int reason) {
  struct rlimit allowed {};
  ::getrlimit(RLIMIT_MEMLOCK, &allowed);
  const std::string limit = allowed.rlim_cur == RLIM_INFINITY
                                ? "any number of"
                                : str_cat(static_cast<uint64_t>(allowed.rlim_cur));
  return str_cat("--lock: ", wanted, " bytes of weights cannot be locked, RLIMIT_MEMLOCK allows ",
                 limit, " (", std::generic_category().message(reason),
                 "); raise it (ulimit -l, or LimitMEMLOCK= of the service), or leave --lock out");
}

// What reading the headers has mapped is not counted anywhere.
int64_t memory_without(std::span<const ByteSpan> files, const ResidentMemory& memory) {
  for (const ByteSpan file : files) {
    ::madvise(pages_of(file), file.size(), MADV_DONTNEED);
  }
  return memory.bytes();
}

int64_t chosen_window(const ResidencyOptions& options) {
  return options.limit_bytes > 0 ? std::min(options.read_ahead_bytes, options.limit_bytes / 8)
                                 : options.read_ahead_bytes;
}

}  // namespace

Residency::Residency(const ResidencyOptions& options, std::span<const ByteSpan> files)
    : limit_bytes_(options.limit_bytes),
      files_(files.begin(), files.end()),
      memory_at_start_(limit_bytes_ > 0 ? memory_without(files, memory_) : memory_.bytes()),
      faults_at_start_(major_faults()),
      read_ahead_(chosen_window(options)) {
  std::sort(files_.begin(), files_.end(),
            [](ByteSpan a, ByteSpan b) { return a.data() < b.data(); });
  statistics_.limit_bytes = limit_bytes_;
}

Residency::Use::Use(Residency* residency, std::span<const ByteSpan> ranges)
    : residency_(residency) {
  if (residency_ != nullptr) {
    first_ = residency_->in_use_.size();
    residency_->begin_use(ranges);
  }
}

Residency::Use::~Use() {
  if (residency_ != nullptr) {
    residency_->end_use(first_);
  }
}

// nullptr for bytes that are in none of the files: dropping those could lose memory of others.
const ByteSpan* Residency::file_of(ByteSpan bytes) const {
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), bytes.data(),
                       [](const std::byte* p, ByteSpan file) { return p < file.data(); });
  return after != files_.begin() && is_inside(*(after - 1), bytes) ? &*(after - 1) : nullptr;
}

Residency::Range* Residency::find(ByteSpan bytes) {
  const ByteSpan* file = file_of(bytes);
  if (bytes.empty() || file == nullptr) {
    return nullptr;
  }
  Range& range = ranges_[bytes.data()];
  const ByteSpan window = rounded_outward(bytes, kTouchBytes, *file);
  if (!range.is_locked && window.size() > range.window.size()) {
    range.window = window;
  }
  return &range;
}

void Residency::count(Range& range, int64_t bytes) {
  if (range.counted_bytes == 0 && bytes > 0) {
    resident_.push_back(&range);
  }
  counted_bytes_ += bytes - range.counted_bytes;
  range.counted_bytes = bytes;
}

void Residency::begin_use(std::span<const ByteSpan> ranges) {
  std::unique_lock lock(mutex_);
  const size_t first = in_use_.size();
  ++uses_;
  missed_.clear();
  int64_t needed = 0;
  for (const ByteSpan bytes : ranges) {
    Range* range = find(bytes);
    if (range == nullptr) {
      continue;
    }
    in_use_.push_back(range);
    const int64_t window = std::ssize(range->window);
    if (range->users++ == 0) {
      in_use_bytes_ += window;
    }
    if (range->last_use > 0 && uses_ > range->last_use) {
      const uint64_t since = uses_ - range->last_use;
      range->interval = range->interval == 0 ? since : (range->interval + since + 1) / 2;
    }
    range->last_use = uses_;
    statistics_.used_bytes += std::ssize(bytes);
    const bool is_requested = read_ahead_.take(range->place);
    if (range->is_locked || range->counted_bytes >= window) {
      continue;
    }
    statistics_.missed_bytes += limit_bytes_ > 0 ? std::ssize(bytes) : 0;
    needed += window - range->counted_bytes;
    if (!is_requested) {
      missed_.push_back(bytes);
    }
  }
  if (limit_bytes_ > 0) {
    make_room(needed);
    for (size_t i = first; i < in_use_.size(); ++i) {
      count(*in_use_[i], in_use_[i]->is_locked ? 0 : std::ssize(in_use_[i]->window));
    }
  }
  lock.unlock();
  request_missed();
}

// What nobody expected: reading it by touches alone takes three times as long. Without a limit
// nothing is known to be absent; a request for what is cached is cheap, and not waited for.
void Residency::request_missed() {
  constexpr int64_t kWhole = 0;
  for (const ByteSpan bytes : missed_) {
    if (limit_bytes_ > 0) {
      request_pages(bytes);
    } else {
      read_ahead_.push_rows(bytes, std::ssize(bytes), {&kWhole, 1});
    }
  }
}

void Residency::end_use(size_t first) {
  const std::lock_guard lock(mutex_);
  for (size_t i = first; i < in_use_.size(); ++i) {
    if (--in_use_[i]->users == 0) {
      in_use_bytes_ -= std::ssize(in_use_[i]->window);
    }
  }
  in_use_.resize(first);
}

// For weights, whatever they hold now: the process's other memory counts as well.
int64_t Residency::room_bytes() const {
  const int64_t other = std::max(memory_at_start_, memory_.bytes() - counted_bytes_);
  return limit_bytes_ - headroom_bytes(limit_bytes_) - other;
}

int64_t Residency::budget_bytes() const {
  if (limit_bytes_ == 0) {
    return std::numeric_limits<int64_t>::max();
  }
  const std::lock_guard lock(mutex_);
  return std::max(room_bytes() - in_use_bytes_, kSmallestBudget);
}

void Residency::make_room(int64_t bytes) {
  const int64_t most = limit_bytes_ - headroom_bytes(limit_bytes_) - bytes;
  int64_t excess = memory_.bytes() - most;
  while (excess > 0 && drop_last_needed(excess) > 0) {
    excess = memory_.bytes() - most;
  }
  if (excess > headroom_bytes(limit_bytes_) && !statistics_.is_over_limit) {
    statistics_.is_over_limit = true;
    log_line(LogLevel::warning, str_cat("the resident limit of ", limit_bytes_,
                                        " bytes cannot be kept: memory other "
                                        "than weights leaves ",
                                        excess,
                                        " bytes too little; raise --resident-limit or "
                                        "make the context, the caches or the pictures smaller"));
  }
}

// Counted bytes are at least what leaves, so the caller measures and may ask again.
int64_t Residency::drop_last_needed(int64_t bytes) {
  std::erase_if(resident_, [](const Range* range) { return range->counted_bytes == 0; });
  candidates_.clear();
  std::copy_if(resident_.begin(), resident_.end(), std::back_inserter(candidates_),
               [](const Range* range) { return range->users == 0; });
  const auto is_needed_first = [&](const Range* a, const Range* b) {
    const uint64_t a_uses = uses_until_needed(*a);
    const uint64_t b_uses = uses_until_needed(*b);
    return a_uses != b_uses ? a_uses < b_uses : a->window.data() < b->window.data();
  };
  std::make_heap(candidates_.begin(), candidates_.end(), is_needed_first);
  int64_t dropped = 0;
  for (auto end = candidates_.end(); dropped < bytes && end != candidates_.begin(); --end) {
    std::pop_heap(candidates_.begin(), end, is_needed_first);
    dropped += (*(end - 1))->counted_bytes;
    drop(**(end - 1));
  }
  return dropped;
}

uint64_t Residency::uses_until_needed(const Range& range) const {
  const uint64_t since = uses_ - range.last_use;
  if (range.interval == 0) {
    return std::numeric_limits<uint64_t>::max() / 2 + since;
  }
  return since < range.interval ? range.interval - since : since;
}

// With locked pages in it the kernel refuses a piece; then as much of the rest as possible leaves.
void Residency::drop(Range& range) {
  const ByteSpan window = range.window;
  if (::madvise(pages_of(window), window.size(), MADV_DONTNEED) != 0) {
    const size_t edge = std::min<size_t>(kTouchBytes, window.size());
    const size_t inner_end = std::max(window.size() - edge, edge);
    for (const ByteSpan part :
         {window.first(edge), window.subspan(edge, inner_end - edge), window.subspan(inner_end)}) {
      ::madvise(pages_of(part), part.size(), MADV_DONTNEED);
    }
  }
  statistics_.dropped_bytes += range.counted_bytes;
  ++statistics_.dropped_ranges;
  count(range, 0);
}

void Residency::expect(std::span<const ByteSpan> ranges) {
  const std::lock_guard lock(mutex_);
  for (const ByteSpan bytes : ranges) {
    Range* range = find(bytes);
    if (range != nullptr && !range->is_locked && range->counted_bytes < std::ssize(range->window)) {
      read_ahead_.push(bytes, range->place);
    }
  }
}

void Residency::expect_rows(ByteSpan table, int64_t row_bytes, std::span<const int64_t> rows) {
  const std::lock_guard lock(mutex_);
  Range* range = find(table);
  if (range == nullptr || range->is_locked) {
    return;
  }
  if (!range->is_sparse) {
    range->is_sparse = true;
    // A touch then reads its page, not those around it as well.
    ::madvise(pages_of(range->window), range->window.size(), MADV_RANDOM);
  }
  read_ahead_.push_rows(table, row_bytes, rows);
  if (limit_bytes_ > 0) {
    if (range->counted_bytes > room_bytes() / kSparseShare) {
      drop(*range);
    }
    const int64_t touched = std::ssize(rows) * (kTouchBytes + round_up(row_bytes, kTouchBytes));
    range->last_use = uses_;
    count(*range, std::min(range->counted_bytes + touched, std::ssize(range->window)));
  }
}

void Residency::lock(std::span<const ByteSpan> ranges) {
  const std::lock_guard guard(mutex_);
  std::vector<Range*> chosen;
  int64_t wanted = 0;
  for (const ByteSpan bytes : ranges) {
    Range* range = find(bytes);
    if (range != nullptr && !std::exchange(range->is_locked, true)) {
      range->window = rounded_outward(bytes, ::sysconf(_SC_PAGESIZE), *file_of(bytes));
      wanted += std::ssize(range->window);
      chosen.push_back(range);
    }
  }
  for (const Range* range : chosen) {
    if (::mlock(range->window.data(), range->window.size()) != 0) {
      const int reason = errno;
      for (Range* locked : chosen) {
        ::munlock(locked->window.data(), locked->window.size());
        locked->is_locked = false;
      }
      throw Error(ErrorCode::bad_request, lock_refusal(wanted, reason));
    }
  }
  statistics_.locked_bytes += wanted;
}

void Residency::check_limit(int64_t other_bytes, int64_t largest_use_bytes) const {
  const int64_t needed = memory_.bytes() + other_bytes + largest_use_bytes + kLeastHeadroom;
  const int64_t smallest = ceil_div(needed, kHeadroomShare - 1) * kHeadroomShare;
  if (limit_bytes_ > 0 && limit_bytes_ < smallest) {
    throw Error(ErrorCode::bad_request,
                str_cat("--resident-limit ", limit_bytes_, ": this model and these options need ",
                        smallest, " bytes at least; give more, or a smaller context or caches"));
  }
}

ResidencyStatistics Residency::statistics() const {
  const MemoryStatus status = memory_status();
  const int64_t read_ahead = read_ahead_.requested_bytes();
  const std::lock_guard lock(mutex_);
  ResidencyStatistics now = statistics_;
  now.resident_bytes = status.resident_bytes;
  now.peak_bytes = status.peak_bytes;
  now.file_bytes = status.file_bytes;
  now.read_ahead_bytes = read_ahead;
  now.major_faults = major_faults() - faults_at_start_;
  return now;
}

}  // namespace tessera
