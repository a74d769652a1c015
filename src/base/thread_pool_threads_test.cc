#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/thread_pool.h"

namespace tessera {
namespace {

TEST(ThreadPool, EveryItemRunsExactlyOnceForAnyThreadCount) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t items : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(static_cast<size_t>(items), 0);
      pool.parallel_for(items, [&](int64_t item, int thread) {
        runs[static_cast<size_t>(item)] += 1 + 0 * thread;
      });
      EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), int64_t{0}), items);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsInARow) {
  ThreadPool pool(4);
  std::vector<int64_t> sums(64, 0);
  for (int round = 0; round < 20000; ++round) {
    pool.parallel_for(64, [&](int64_t item, int) { sums[static_cast<size_t>(item)] += item; });
  }
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(sums[static_cast<size_t>(i)], i * 20000);
  }
}

TEST(ThreadPool, SubnormalsAreFlushedInBodiesAndKeptOutside) {
  ThreadPool pool(2);
  volatile float tiny = 1e-38f;
  std::vector<float> seen(8, 1.0f);
  pool.parallel_for(8, [&](int64_t item, int) { seen[static_cast<size_t>(item)] = tiny * 0.01f; });
  for (const float x : seen) {
    EXPECT_EQ(x, 0.0f);
  }
  EXPECT_NE(tiny * 0.01f, 0.0f);
}

TEST(ThreadPool, AvailableThreadsIsPositiveAndNotMoreThanTheMachine) {
  EXPECT_GE(available_threads(), 1);
  EXPECT_LE(available_threads(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace tessera
