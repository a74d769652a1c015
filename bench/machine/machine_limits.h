// What the machine can do at most: the denominators of every benchmark, measured in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace tessera::bench {

// All figures are of `threads` threads together: 10^9 multiply and add operations (a fused one is
// two) or 10^9 bytes a second. 0 where the level lacks the instruction.
struct MachineLimits {
  IsaLevel isa = IsaLevel::reference;
  int threads = 1;
  double fma_gflops = 0;  // fp32 fused multiply-add, independent chains in registers
  double dot_gflops = 0;  // vdpbf16ps
  double l2_gbs = 0;      // reads of half of each core's L2
  double dram_gbs = 0;    // reads of a buffer several times the last-level cache, plain loads

  double peak_gflops() const { return dot_gflops > fma_gflops ? dot_gflops : fma_gflops; }
};

struct LimitOptions {
  // Each figure is the best of so many rounds. Every worker times itself: rounds that a neighbour
  // disturbs lose, and no sleeping main thread slows the workers down.
  int rounds = 30;
  double round_ms = 4;
  // Size of the DRAM buffer of all threads; 0: four times the last-level cache, at least 512 MiB,
  // at most 2 GiB and an eighth of the memory.
  int64_t dram_bytes = 0;
};

MachineLimits measure_limits(IsaLevel isa, int threads, const LimitOptions& options = {});

// Every supported level with 1, 2, 4, ... and `threads` threads.
std::vector<MachineLimits> measure_machine(int threads, const LimitOptions& options = {});

// Of the first processor, as the kernel tells; 0 when it does not.
struct CacheSizes {
  int64_t l1d_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t last_level_bytes = 0;
};
CacheSizes cache_sizes();

// Lines `fma avx2 2 threads 225.0 GFLOP/s`, for people.
std::string limits_text(const std::vector<MachineLimits>& limits);

}  // namespace tessera::bench
