#include "machine/machine_limits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/aligned_buffer.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "machine/limit_kernels.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct LevelKernels {
  float (*fma)(int64_t);
  double fma_flops;  // of one step
  float (*dot)(int64_t);
  double dot_flops;
  uint64_t (*read)(const std::byte*, int64_t);
};

LevelKernels kernels_of(IsaLevel isa) {
  switch (isa) {
    case IsaLevel::avx2:
      return {fma_chains_avx2, 12 * 8 * 2, nullptr, 0, read_bytes_avx2};
    case IsaLevel::avx512:
      return {fma_chains_avx512, 12 * 16 * 2, dot_chains_avx512, 12 * 32 * 2, read_bytes_avx512};
    case IsaLevel::reference:
      break;
  }
  return {fma_chains_reference, 16 * 4 * 2, nullptr, 0, read_bytes_reference};
}

// Keeps a result alive.
template <typename T>
void keep(T value) {
  __asm__ volatile("" : : "g"(value) : "memory");
}

// work(thread) is run by all threads at once, over and over; each times its own runs. Returns the
// best round's sum over threads of amount / seconds.
template <typename Work>
double best_rate(ThreadPool& pool, int rounds, double amount, const Work& work) {
  const int threads = pool.threads();
  std::vector<double> seconds(static_cast<size_t>(threads));
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> arrived{0};
    pool.parallel_for(threads, [&](int64_t item, int) {
      arrived.fetch_add(1);
      while (arrived.load() < threads) {  // one item per thread, all starting together
      }
      const Clock::time_point start = Clock::now();
      work(item);
      seconds[static_cast<size_t>(item)] = seconds_since(start);
    });
    double rate = 0;
    for (const double s : seconds) {
      rate += amount / s;
    }
    best = std::max(best, rate);
  }
  return best * 1e-9;
}

// So many steps as take about `ms` milliseconds on this thread.
int64_t steps_for(float (*chains)(int64_t), double ms) {
  constexpr int64_t kProbe = 20000;
  double fastest = 1;
  for (int i = 0; i < 5; ++i) {
    const Clock::time_point start = Clock::now();
    keep(chains(kProbe));
    fastest = std::min(fastest, seconds_since(start));
  }
  return std::max(kProbe, static_cast<int64_t>(ms * 1e-3 / fastest * kProbe));
}

double chains_rate(ThreadPool& pool, const LimitOptions& options, float (*chains)(int64_t),
                   double flops) {
  if (chains == nullptr) {
    return 0;
  }
  const int64_t steps = steps_for(chains, options.round_ms);
  return best_rate(pool, options.rounds, flops * static_cast<double>(steps),
                   [&](int64_t) { keep(chains(steps)); });
}

// Memory that is really there, in huge pages where the system gives them.
AlignedBuffer touched_buffer(int64_t bytes) {
  AlignedBuffer buffer(bytes);
  constexpr uintptr_t kHuge = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(buffer.data()) + kHuge - 1) & ~(kHuge - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(buffer.data()) + static_cast<uintptr_t>(bytes);
  if (begin + kHuge <= end) {
    madvise(reinterpret_cast<void*>(begin), (end - begin) & ~(kHuge - 1), MADV_HUGEPAGE);
  }
  std::memset(buffer.data(), 1, static_cast<size_t>(bytes));
  return buffer;
}

double l2_rate(ThreadPool& pool, const LimitOptions& options, const LevelKernels& kernels) {
  const CacheSizes caches = cache_sizes();
  const int64_t bytes = (caches.l2_bytes > 0 ? caches.l2_bytes : 512 << 10) / 2 / 512 * 512;
  std::vector<AlignedBuffer> buffers;
  for (int thread = 0; thread < pool.threads(); ++thread) {
    buffers.push_back(touched_buffer(bytes));
  }
  const int64_t times = std::max<int64_t>(
      1, static_cast<int64_t>(options.round_ms * 1e-3 * 40e9 / static_cast<double>(bytes)));
  return best_rate(pool, options.rounds, static_cast<double>(bytes * times), [&](int64_t thread) {
    for (int64_t i = 0; i < times; ++i) {
      keep(kernels.read(buffers[static_cast<size_t>(thread)].data(), bytes));
    }
  });
}

int64_t dram_buffer_bytes(const LimitOptions& options) {
  if (options.dram_bytes > 0) {
    return options.dram_bytes;
  }
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const int64_t wanted = std::max<int64_t>(4 * cache_sizes().last_level_bytes, 512 << 20);
  return std::min({wanted, int64_t{2} << 30, memory / 8});
}

// Each round reads the next slice of the thread's part, so that no round finds its bytes cached.
double dram_rate(ThreadPool& pool, const LimitOptions& options, const LevelKernels& kernels) {
  const int64_t threads = pool.threads();
  const int64_t part = dram_buffer_bytes(options) / threads / 512 * 512;
  const int64_t slice = std::min<int64_t>(part, 64 << 20) / 512 * 512;
  const AlignedBuffer buffer = touched_buffer(part * threads);
  std::vector<int64_t> next(static_cast<size_t>(threads), 0);
  const int rounds =
      static_cast<int>(std::max<int64_t>(std::min(2 * part / slice, int64_t{options.rounds}), 3));
  return best_rate(pool, rounds, static_cast<double>(slice), [&](int64_t thread) {
    int64_t& at = next[static_cast<size_t>(thread)];
    at = at + slice > part ? 0 : at;
    keep(kernels.read(buffer.data() + thread * part + at, slice));
    at += slice;
  });
}

int64_t size_from_file(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text) || text.empty()) {
    return 0;
  }
  int64_t unit = 1;
  if (text.back() == 'K' || text.back() == 'M') {
    unit = text.back() == 'K' ? 1 << 10 : 1 << 20;
    text.pop_back();
  }
  int64_t number = 0;
  return parse_number(text, number) ? number * unit : 0;
}

}  // namespace

CacheSizes cache_sizes() {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = str_cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::ifstream level_file(folder + "level");
    std::ifstream type_file(folder + "type");
    int level = 0;
    std::string type;
    if (!(level_file >> level) || !(type_file >> type)) {
      break;
    }
    const int64_t bytes = size_from_file(folder + "size");
    if (type == "Instruction") {
      continue;
    }
    if (level == 1) {
      sizes.l1d_bytes = bytes;
    } else if (level == 2) {
      sizes.l2_bytes = bytes;
    }
    sizes.last_level_bytes = std::max(sizes.last_level_bytes, bytes);
  }
  return sizes;
}

MachineLimits measure_limits(IsaLevel isa, int threads, const LimitOptions& options) {
  ThreadPool pool(threads);
  const LevelKernels kernels = kernels_of(isa);
  MachineLimits limits;
  limits.isa = isa;
  limits.threads = threads;
  limits.fma_gflops = chains_rate(pool, options, kernels.fma, kernels.fma_flops);
  limits.dot_gflops = chains_rate(pool, options, kernels.dot, kernels.dot_flops);
  limits.l2_gbs = l2_rate(pool, options, kernels);
  limits.dram_gbs = dram_rate(pool, options, kernels);
  return limits;
}

std::vector<MachineLimits> measure_machine(int threads, const LimitOptions& options) {
  std::vector<MachineLimits> all;
  for (const IsaLevel isa : supported_isas()) {
    for (int count = 1; count < threads; count *= 2) {
      all.push_back(measure_limits(isa, count, options));
    }
    all.push_back(measure_limits(isa, threads, options));
  }
  return all;
}

std::string limits_text(const std::vector<MachineLimits>& limits) {
  std::string text;
  const auto line = [&text](const char* name, const MachineLimits& l, double value,
                            const char* unit) {
    if (value > 0) {
      text += str_cat(name, " ", isa_name(l.isa), " ", l.threads, " threads ",
                      std::round(value * 10) / 10, " ", unit, "\n");
    }
  };
  for (const MachineLimits& l : limits) {
    line("fma", l, l.fma_gflops, "GFLOP/s");
    line("dot", l, l.dot_gflops, "GFLOP/s");
    line("l2", l, l.l2_gbs, "GB/s");
    line("dram", l, l.dram_gbs, "GB/s");
  }
  return text;
}

}  // namespace tessera::bench
