// Benchmarks of operations on shapes of real models, with the share of the machine's limit that
// they reach. The limit of a case is the longer of flops / peak and bytes / DRAM bandwidth, both
// measured in the same run.
#pragma once

#include <string>
#include <vector>

#include "machine/machine_limits.h"

namespace tessera::bench {

// One line of bench/shapes/<model>.txt.
struct Shape {
  std::string op;      // "linear", "vision_attention"
  std::string name;    // "tower.wqkv"
  std::string format;  // linear: bf16, f32, fp8, mxfp4
  // linear: rows, outputs, inputs, calls. vision_attention: tokens, heads, head_dim.
  std::vector<int64_t> sizes;
};

struct Result {
  std::string name;
  std::string shape;  // "bf16 5184x3072x1024"
  int threads = 1;
  IsaLevel isa = IsaLevel::reference;
  double ms = 0;       // median
  double best_ms = 0;  // fastest run
  double gflops = 0;   // of the fastest run, as gbs and limit_share
  double gbs = 0;      // weights read once, activations not counted
  double limit_share = 0;
};

struct BenchOptions {
  IsaLevel isa = active_isa();
  int threads = 1;
  double seconds = 0.5;  // per case, at least three runs
  std::string filter;    // only names that contain it
};

// Throws Error{bad_file} that names the line.
std::vector<Shape> read_shapes(const std::string& path);

Result bench_linear(const Shape& shape, const BenchOptions& options, const MachineLimits& limits);
Result bench_vision_attention(const Shape& shape, const BenchOptions& options,
                              const MachineLimits& limits);
// All shapes that the filter lets through, in file order.
std::vector<Result> bench_ops(const std::vector<Shape>& shapes, const BenchOptions& options,
                              const MachineLimits& limits);

std::string result_text(const Result& result);

// Runs `work` for the time the options give; fills ms, best_ms and what follows from them.
template <typename Work>
void time_runs(const BenchOptions& options, const MachineLimits& limits, double flops, double bytes,
               const Work& work, Result& result);
std::vector<double> timed_runs(double seconds, void (*run)(void*), void* work);
void fill_rates(const MachineLimits& limits, double flops, double bytes,
                std::vector<double> seconds, Result& result);

template <typename Work>
void time_runs(const BenchOptions& options, const MachineLimits& limits, double flops, double bytes,
               const Work& work, Result& result) {
  Work copy = work;
  fill_rates(limits, flops, bytes,
             timed_runs(
                 options.seconds, [](void* w) { (*static_cast<Work*>(w))(); }, &copy),
             result);
}

}  // namespace tessera::bench
