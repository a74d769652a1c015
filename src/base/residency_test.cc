#include "base/residency.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "tests/support/sanitizers.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kRangeBytes = 4 * kMiB;
constexpr int64_t kRanges = 16;

// A file of 16 ranges. They are multiples of 2 MiB, so that a touch maps pages of its own range
// alone whatever pieces the page cache holds.
class ResidencyTest : public testing::Test {
 protected:
  ResidencyTest() {
    std::string pattern = testing::TempDir() + "residency_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream out(folder_ + "/weights", std::ios::binary);
    std::vector<char> bytes(kRangeBytes);
    for (int64_t i = 0; i < kRanges; ++i) {
      std::fill(bytes.begin(), bytes.end(), static_cast<char>(i + 1));
      out.write(bytes.data(), kRangeBytes);
    }
    out.close();
    file_.emplace(folder_ + "/weights");
  }
  ~ResidencyTest() override { std::filesystem::remove_all(folder_); }

  ByteSpan range(int64_t i) const { return file_->bytes().subspan(offset(i), kRangeBytes); }
  static size_t offset(int64_t i) { return static_cast<size_t>(i * kRangeBytes); }

  // With room for `ranges` ranges and a half.
  ResidencyOptions room_for(int64_t ranges) const {
    const int64_t room = ranges * kRangeBytes + kRangeBytes / 2;
    return {.limit_bytes = (ResidentMemory().bytes() + room + 8 * kMiB) * 32 / 31};
  }

  std::string folder_;
  std::optional<MappedFile> file_;
};

// One byte of every page.
int64_t touch(ByteSpan bytes) {
  int64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 4096) {
    sum += std::to_integer<int64_t>(*static_cast<const volatile std::byte*>(&bytes[i]));
  }
  return sum;
}

int64_t use_and_touch(Residency& residency, ByteSpan bytes) {
  const Residency::Use use(&residency, {&bytes, 1});
  return touch(bytes);
}

// How many pages of the bytes are mapped into this process (bit 63 of their pagemap entries).
int64_t mapped_pages(ByteSpan bytes) {
  std::vector<uint64_t> entries(bytes.size() / 4096);
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const ssize_t read =
      ::pread(map, entries.data(), entries.size() * 8,
              static_cast<off_t>(reinterpret_cast<uintptr_t>(bytes.data()) / 4096 * 8));
  ::close(map);
  EXPECT_EQ(read, std::ssize(entries) * 8);
  return std::count_if(entries.begin(), entries.end(), [](uint64_t e) { return (e >> 63) == 1; });
}

int64_t cached_pages(ByteSpan bytes) {
  std::vector<unsigned char> pages(bytes.size() / 4096);
  ::mincore(const_cast<std::byte*>(bytes.data()), bytes.size(), pages.data());
  return std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) == 1; });
}

// Whether the requested pages arrive.
bool are_read(ByteSpan bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cached_pages(bytes) < std::ssize(bytes) / 4096) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void drop_from_cache(const MappedFile& file) {
  release_pages(file.bytes());
  const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(descriptor);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

TEST_F(ResidencyTest, MemoryStaysBelowTheLimitAndBytesAreTheSame) {
  const ResidencyOptions options = room_for(4);
  const ByteSpan file = file_->bytes();
  Residency residency(options, {&file, 1});
  const ResidentMemory memory;
  for (int64_t i = 0; i < 3 * kRanges; ++i) {
    EXPECT_EQ(use_and_touch(residency, range(i % kRanges)), (i % kRanges + 1) * kRangeBytes / 4096);
    ASSERT_LE(memory.bytes(), options.limit_bytes) << i;
  }
  const ResidencyStatistics s = residency.statistics();
  EXPECT_EQ(s.used_bytes, 3 * kRanges * kRangeBytes);
  EXPECT_GT(s.dropped_ranges, kRanges);
  EXPECT_GE(s.dropped_bytes, s.dropped_ranges * kRangeBytes);
  EXPECT_FALSE(s.is_over_limit);
}

TEST_F(ResidencyTest, WhatIsUsedOftenStaysWhatWasUsedOnceGoes) {
  const ByteSpan file = file_->bytes();
  Residency residency(room_for(4), {&file, 1});
  for (int64_t i = 2; i < kRanges; ++i) {
    use_and_touch(residency, range(0));
    use_and_touch(residency, range(1));
    use_and_touch(residency, range(i));
  }
  EXPECT_EQ(mapped_pages(range(0)), kRangeBytes / 4096);
  EXPECT_EQ(mapped_pages(range(1)), kRangeBytes / 4096);
  EXPECT_EQ(mapped_pages(range(2)), 0);
  EXPECT_EQ(residency.statistics().missed_bytes, kRanges * kRangeBytes);
}

// Dropping what was used least recently would miss every use.
TEST_F(ResidencyTest, PartOfACycleThatIsLargerThanMemoryStays) {
  const ByteSpan file = file_->bytes();
  Residency residency(room_for(4), {&file, 1});
  constexpr int64_t kCycle = 6, kRounds = 12;
  for (int64_t i = 0; i < kCycle * kRounds; ++i) {
    use_and_touch(residency, range(i % kCycle));
  }
  // At best three of the six stay and the others take turns in the fourth place.
  EXPECT_LT(residency.statistics().missed_bytes, kCycle * kRounds * kRangeBytes * 2 / 3);
}

TEST_F(ResidencyTest, RangesInUseStay) {
  const ByteSpan file = file_->bytes();
  Residency residency(room_for(4), {&file, 1});
  const ByteSpan pinned = range(3);
  {
    const Residency::Use use(&residency, {&pinned, 1});
    touch(pinned);
    const int64_t budget = residency.budget_bytes();
    EXPECT_LT(budget, 4 * kRangeBytes);
    EXPECT_GE(budget, 3 * kRangeBytes);
    for (int64_t i = 4; i < kRanges; ++i) {
      use_and_touch(residency, range(i));
      ASSERT_EQ(mapped_pages(pinned), kRangeBytes / 4096);
    }
  }
  EXPECT_GE(residency.budget_bytes(), 4 * kRangeBytes);
  for (int64_t i = 4; i < kRanges; ++i) {
    use_and_touch(residency, range(i));
  }
  EXPECT_EQ(mapped_pages(pinned), 0);
}

TEST_F(ResidencyTest, MemoryOfOthersIsLeftAlone) {
  const ByteSpan file = file_->bytes();
  Residency residency(room_for(1), {&file, 1});
  const std::vector<std::byte> heap(kRangeBytes, std::byte{7});
  const ByteSpan foreign = heap;
  residency.expect({&foreign, 1});
  use_and_touch(residency, foreign);
  EXPECT_EQ(residency.statistics().used_bytes, 0);
  use_and_touch(residency, range(0));
  use_and_touch(residency, range(1));
  use_and_touch(residency, range(2));
  EXPECT_GT(residency.statistics().dropped_ranges, 0);
  EXPECT_EQ(std::count(heap.begin(), heap.end(), std::byte{7}), kRangeBytes);
}

TEST_F(ResidencyTest, WithoutALimitNothingIsDropped) {
  const ByteSpan file = file_->bytes();
  Residency residency({}, {&file, 1});
  for (int64_t i = 0; i < kRanges; ++i) {
    use_and_touch(residency, range(i));
  }
  EXPECT_EQ(mapped_pages(file), kRanges * kRangeBytes / 4096);
  EXPECT_EQ(residency.statistics().dropped_ranges, 0);
  EXPECT_GT(residency.budget_bytes(), int64_t{1} << 50);
  const Residency::Use nothing(nullptr, {&file, 1});
}

TEST_F(ResidencyTest, RowsOfATableTakeASmallShare) {
  const ResidencyOptions options = room_for(4);
  const ByteSpan file = file_->bytes();
  Residency residency(options, {&file, 1});
  constexpr int64_t kRow = 1024;
  const int64_t rows_of_file = std::ssize(file) / kRow;
  for (int64_t step = 0; step < 200; ++step) {
    const std::array<int64_t, 2> rows = {step * 577 % rows_of_file, step * 7919 % rows_of_file};
    residency.expect_rows(file, kRow, rows);
    for (const int64_t row : rows) {
      touch(file.subspan(static_cast<size_t>(row * kRow), kRow));
    }
    // A touch maps up to a 2 MiB page, which the page cache may hold.
    ASSERT_LE(mapped_pages(file), 4 * kRangeBytes / 4096) << step;
  }
  EXPECT_GT(residency.statistics().dropped_ranges, 0);
  EXPECT_EQ(residency.statistics().read_ahead_bytes % kRow, 0);
}

TEST_F(ResidencyTest, LockedRangesNeverLeave) {
  const ByteSpan file = file_->bytes();
  if (test::kHasAddressSanitizer || ::mlock(file.data(), 2 * kMiB) != 0) {
    GTEST_SKIP() << "two MiB cannot be locked here";
  }
  ::munlock(file.data(), 2 * kMiB);
  Residency residency(room_for(4), {&file, 1});
  // Not at a border of pages: its neighbours share pages with it.
  const ByteSpan locked = file.subspan(offset(5) + 100, kMiB);
  residency.lock({&locked, 1});
  EXPECT_EQ(residency.statistics().locked_bytes, kMiB + 4096);
  const ByteSpan inner = file.subspan(offset(5) + 4096, kMiB - 4096);
  EXPECT_EQ(mapped_pages(inner), std::ssize(inner) / 4096);
  for (int64_t i = 0; i < 2 * kRanges; ++i) {
    use_and_touch(residency, range(i % kRanges));
  }
  EXPECT_EQ(mapped_pages(inner), std::ssize(inner) / 4096);
  EXPECT_LE(ResidentMemory().bytes(), residency.statistics().limit_bytes);
}

TEST_F(ResidencyTest, LockingBeyondTheAllowedBytesSaysWhatToDo) {
  const uid_t user = ::geteuid();
  if (test::kHasAddressSanitizer || (user == 0 && ::seteuid(65534) != 0)) {
    GTEST_SKIP() << "this user may lock any number of bytes";
  }
  struct rlimit before {};
  ::getrlimit(RLIMIT_MEMLOCK, &before);
  const struct rlimit little = {65536, before.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &little);
  const ByteSpan file = file_->bytes();
  Residency residency({}, {&file, 1});
  std::string message;
  try {
    residency.lock({&file, 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    message = error.what();
  }
  ::setrlimit(RLIMIT_MEMLOCK, &before);
  EXPECT_EQ(::seteuid(user), 0);
  EXPECT_TRUE(message.starts_with(str_cat("--lock: ", std::ssize(file), " bytes"))) << message;
  EXPECT_NE(message.find("RLIMIT_MEMLOCK allows 65536 ("), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(residency.statistics().locked_bytes, 0);
}

TEST_F(ResidencyTest, ALimitThatCannotWorkNamesTheSmallestThatDoes) {
  const ByteSpan file = file_->bytes();
  const Residency residency({.limit_bytes = kMiB}, {&file, 1});
  std::string message;
  try {
    residency.check_limit(100 * kMiB, 10 * kMiB);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    message = error.what();
  }
  const std::string start = "--resident-limit 1048576: this model and these options need ";
  ASSERT_TRUE(message.starts_with(start)) << message;
  const int64_t smallest = std::stoll(message.substr(start.size()));
  EXPECT_GT(smallest, 118 * kMiB);
  EXPECT_TRUE(smallest < 200 * kMiB || test::kHasAddressSanitizer) << smallest;
  const Residency enough({.limit_bytes = smallest + 4 * kMiB}, {&file, 1});
  EXPECT_NO_THROW(enough.check_limit(100 * kMiB, 10 * kMiB));
}

using ReadAheadTest = ResidencyTest;

TEST_F(ReadAheadTest, PagesAreRequestedInOrderUpToTheWindow) {
  drop_from_cache(*file_);
  if (cached_pages(file_->bytes()) > 0) {
    GTEST_SKIP() << "this file system keeps the file in memory";
  }
  ReadAhead ahead(2 * kRangeBytes);
  std::array<ReadAhead::Place, 6> places;
  for (size_t i = 0; i < places.size(); ++i) {
    ahead.push(range(static_cast<int64_t>(i)), places[i]);
    ahead.push(range(static_cast<int64_t>(i)), places[i]);  // stands in the queue already
  }
  ahead.wait_until_idle();
  EXPECT_EQ(ahead.requested_bytes(), 2 * kRangeBytes);
  EXPECT_TRUE(are_read(range(0)) && are_read(range(1)));
  EXPECT_EQ(cached_pages(range(2)), 0);
  EXPECT_TRUE(ahead.take(places[0]));
  ahead.wait_until_idle();
  EXPECT_EQ(ahead.requested_bytes(), 3 * kRangeBytes);
  EXPECT_TRUE(are_read(range(2)));
  EXPECT_EQ(cached_pages(range(3)), 0);
  // A use out of order: those before it are not waited for, and not read any longer.
  EXPECT_FALSE(ahead.take(places[4]));
  ahead.wait_until_idle();
  EXPECT_EQ(ahead.requested_bytes(), 4 * kRangeBytes);
  EXPECT_TRUE(are_read(range(5)));
  EXPECT_EQ(cached_pages(range(3)), 0);
  EXPECT_FALSE(ahead.take(places[3]));
  EXPECT_TRUE(ahead.take(places[5]));
  EXPECT_FALSE(ahead.take(places[5]));
}

TEST_F(ReadAheadTest, RowsAreOutsideTheWindow) {
  drop_from_cache(*file_);
  if (cached_pages(file_->bytes()) > 0) {
    GTEST_SKIP() << "this file system keeps the file in memory";
  }
  ReadAhead ahead(0);
  const std::array<int64_t, 2> rows = {1, 3 * kRangeBytes / 4096};
  ahead.push_rows(file_->bytes(), 4096, rows);
  ahead.wait_until_idle();
  EXPECT_EQ(ahead.requested_bytes(), 2 * 4096);
  EXPECT_TRUE(are_read(range(0).subspan(4096, 4096)) && are_read(range(3).first(4096)));
  EXPECT_EQ(cached_pages(range(2)), 0);
}

}  // namespace
}  // namespace tessera
