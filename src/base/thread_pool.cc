#include "base/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/check.h"
#include "base/cpu.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

// Some tens of microseconds of looking before sleeping in the kernel: loops of one decode step
// follow each other within microseconds, and a timer-based short sleep costs more than it saves.
constexpr int kSpins = 500;

constexpr uint64_t kUnclaimed = 0xffffffffU;  // lower half of the offer

// Quota of a cgroup v2 file `max 100000` or `150000 100000`; 0 when unlimited or absent.
double quota_v2(const std::string& path) {
  std::ifstream file(path);
  std::string quota, period;
  double q = 0, p = 0;
  if (file >> quota >> period && parse_number(quota, q) && parse_number(period, p) && p > 0) {
    return q / p;
  }
  return 0;
}

double quota_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) {
    return quota / period;
  }
  return 0;
}

void keep_smallest(double& limit, double candidate) {
  if (candidate > 0 && (limit == 0 || candidate < limit)) {
    limit = candidate;
  }
}

// Smallest quota on the way from this process's cgroup to the root; 0 when there is none.
double cgroup_quota() {
  double limit = 0;
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",cpu,") == std::string::npos) {
      continue;
    }
    while (true) {
      if (is_v2) {
        keep_smallest(limit, quota_v2("/sys/fs/cgroup" + path + "/cpu.max"));
      } else {
        keep_smallest(limit, quota_v1("/sys/fs/cgroup/cpu" + path));
        keep_smallest(limit, quota_v1("/sys/fs/cgroup/cpu,cpuacct" + path));
      }
      const size_t slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) {
        break;
      }
      path.resize(slash);
    }
  }
  return limit;
}

}  // namespace

int available_threads() {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    threads = CPU_COUNT(&set);
  }
  const double quota = cgroup_quota();
  if (quota > 0) {
    threads = std::min(threads, static_cast<int>(std::ceil(quota)));
  }
  return std::max(threads, 1);
}

ThreadPool::ThreadPool(int threads) {
  TESSERA_CHECK(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  is_stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

bool ThreadPool::run_one(int thread) noexcept {
  uint64_t offer = offer_.load(std::memory_order_acquire);
  while (true) {
    if ((offer & kUnclaimed) == 0) {
      return false;
    }
    if (offer_.compare_exchange_weak(offer, offer - 1, std::memory_order_acq_rel)) {
      break;
    }
  }
  function_(body_, items_ - static_cast<int64_t>(offer & kUnclaimed), thread);
  const int64_t total = items_;
  if (done_items_.fetch_add(1, std::memory_order_acq_rel) + 1 == total) {
    done_items_.notify_one();
  }
  return true;
}

void ThreadPool::run(int64_t items, Function function, const void* body) noexcept {
  if (items <= 0) {
    return;
  }
  TESSERA_CHECK(static_cast<uint64_t>(items) <= kUnclaimed);
  const ScopedFlushSubnormals flush;
  if (items == 1 || workers_.empty()) {
    for (int64_t item = 0; item < items; ++item) {
      function(body, item, 0);
    }
    return;
  }
  function_ = function;
  body_ = body;
  items_ = items;
  done_items_.store(0, std::memory_order_relaxed);
  const uint64_t loop = (offer_.load(std::memory_order_relaxed) >> 32) + 1;
  offer_.store((loop << 32) | static_cast<uint64_t>(items), std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  while (run_one(0)) {
  }
  int spins = 0;
  int64_t done = done_items_.load(std::memory_order_acquire);
  while (done != items) {
    if (++spins < kSpins) {
      _mm_pause();
    } else {
      done_items_.wait(done, std::memory_order_acquire);
    }
    done = done_items_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int thread) noexcept {
  const ScopedFlushSubnormals flush;
  uint32_t seen = 0;
  while (true) {
    int spins = 0;
    uint32_t now = generation_.load(std::memory_order_acquire);
    while (now == seen) {
      if (++spins < kSpins) {
        _mm_pause();
      } else {
        generation_.wait(seen, std::memory_order_acquire);
      }
      now = generation_.load(std::memory_order_acquire);
    }
    seen = now;
    if (is_stopping_.load(std::memory_order_relaxed)) {
      return;
    }
    while (run_one(thread)) {
    }
  }
}

}  // namespace tessera
