// Also run under the thread sanitizer: the read-ahead thread and a reader of the numbers beside the
// thread that computes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "base/residency.h"

namespace tessera {
namespace {

constexpr int64_t kRangeBytes = int64_t{1} << 20;
constexpr int64_t kRanges = 12;

std::string write_weights(const std::string& folder) {
  std::string path = folder + "/weights";
  std::ofstream out(path, std::ios::binary);
  for (int64_t i = 0; i < kRanges; ++i) {
    const std::vector<char> bytes(kRangeBytes, static_cast<char>(i + 1));
    out.write(bytes.data(), kRangeBytes);
  }
  return path;
}

// Every byte that is read is the file's, whoever asks for pages and numbers meanwhile.
TEST(ResidencyThreads, NumbersAreReadWhileRangesComeAndGo) {
  std::string pattern = testing::TempDir() + "residency_threads_XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  {
    const MappedFile file(write_weights(folder));
    const ByteSpan bytes = file.bytes();
    Residency residency({.limit_bytes = ResidentMemory().bytes() + 64 * kRangeBytes}, {&bytes, 1});
    std::atomic<bool> is_done = false;
    int64_t last = 0;
    std::thread reader([&] {
      while (!is_done) {
        const int64_t used = residency.statistics().used_bytes;
        EXPECT_GE(used, last);
        last = used;
      }
    });
    for (int64_t step = 0; step < 100; ++step) {
      const auto range = [&](int64_t i) {
        return bytes.subspan(static_cast<size_t>(i % kRanges * kRangeBytes), kRangeBytes);
      };
      const std::array<ByteSpan, 2> next = {range(step + 1), range(step + 5)};
      residency.expect(next);
      const std::array<int64_t, 2> rows = {step, step * 7 % 256};
      residency.expect_rows(range(step + 3), 4096, rows);
      const std::array<ByteSpan, 2> used = {range(step), range(step + 4)};
      const Residency::Use use(&residency, used);
      for (size_t at = 0; at < kRangeBytes; at += 4096) {
        ASSERT_EQ(std::to_integer<int64_t>(used[0][at]), step % kRanges + 1);
        ASSERT_EQ(std::to_integer<int64_t>(used[1][at]), (step + 4) % kRanges + 1);
      }
    }
    is_done = true;
    reader.join();
    EXPECT_EQ(residency.statistics().used_bytes, 200 * kRangeBytes);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera
