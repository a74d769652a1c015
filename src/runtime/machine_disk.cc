#include "runtime/machine_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSmallestFile = int64_t{64} << 20;
constexpr int64_t kLargeRead = int64_t{4} << 20;
constexpr int64_t kSmallRead = 4096;
constexpr std::chrono::milliseconds kTime(700);  // for each of the two figures

class File {
 public:
  explicit File(const std::string& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor_ < 0 && errno == EINVAL) {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      const int reason = errno;
      close();
      throw Error(ErrorCode::bad_file, str_cat(path, ": cannot be read: ", std::strerror(reason)));
    }
    bytes_ = status.st_size;
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t bytes() const { return bytes_; }
  bool read(std::byte* to, int64_t size, int64_t at) const {
    return ::pread(descriptor_, to, static_cast<size_t>(size), at) == size;
  }

 private:
  void close() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

// Reads of `size` bytes per second that all threads do together, each of the next place that
// place(thread, count) names.
template <typename Place>
double reads_per_second(const File& file, int threads, int64_t size, const Place& place) {
  std::atomic<int64_t> done{0};
  const Clock::time_point start = Clock::now();
  const auto work = [&](int thread) {
    AlignedBuffer memory(size + kSmallRead);
    std::byte* const buffer = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<intptr_t>(memory.data()), kSmallRead));
    for (int64_t count = 0; Clock::now() - start < kTime; ++count) {
      if (!file.read(buffer, size, place(thread, count))) {
        return;
      }
      done.fetch_add(1);
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) {
    others.emplace_back(work, thread);
  }
  work(0);
  for (std::thread& other : others) {
    other.join();
  }
  return static_cast<double>(done.load()) /
         std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DiskSpeed measure_disk(const std::string& path, int threads) {
  const File file(path);
  if (file.bytes() < kSmallestFile) {
    return {};
  }
  const int64_t large = file.bytes() / kLargeRead;
  const int64_t small = file.bytes() / kSmallRead;
  std::atomic<int64_t> next{0};
  DiskSpeed speed;
  speed.bytes_per_second = static_cast<double>(kLargeRead) *
                           reads_per_second(file, threads, kLargeRead, [&](int, int64_t) {
                             return next.fetch_add(1) % large * kLargeRead;
                           });
  std::vector<std::mt19937_64> random;
  for (int thread = 0; thread < threads; ++thread) {
    random.emplace_back(static_cast<uint64_t>(thread));
  }
  speed.reads_per_second = reads_per_second(file, threads, kSmallRead, [&](int thread, int64_t) {
    const uint64_t drawn = random[static_cast<size_t>(thread)]();
    return static_cast<int64_t>(drawn % static_cast<uint64_t>(small)) * kSmallRead;
  });
  return speed;
}

}  // namespace tessera
