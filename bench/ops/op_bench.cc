#include "ops/op_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::bench {
namespace {

bool parse_shape(const std::string& line, Shape& shape) {
  std::istringstream words(line);
  if (!(words >> shape.op >> shape.name)) {
    return false;
  }
  const bool is_linear = shape.op == "linear";
  if (!is_linear && shape.op != "vision_attention") {
    return false;
  }
  if (is_linear && !(words >> shape.format)) {
    return false;
  }
  std::string word;
  while (words >> word) {
    int64_t size = 0;
    if (!parse_number(word, size) || size < 1) {
      return false;
    }
    shape.sizes.push_back(size);
  }
  if (is_linear && shape.sizes.size() == 3) {
    shape.sizes.push_back(1);
  }
  return shape.sizes.size() == (is_linear ? 4U : 3U);
}

}  // namespace

std::vector<Shape> read_shapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": cannot open; name a file of shapes"));
  }
  std::vector<Shape> shapes;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    Shape shape;
    if (!parse_shape(line, shape)) {
      throw Error(ErrorCode::bad_file, str_cat(path, ":", number,
                                               ": expected `linear NAME FORMAT ROWS OUTPUTS INPUTS "
                                               "[CALLS]` or `vision_attention NAME TOKENS HEADS "
                                               "HEAD_DIM`, found `",
                                               line, "`"));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<double> timed_runs(double seconds, void (*run)(void*), void* work) {
  using Clock = std::chrono::steady_clock;
  run(work);  // caches, page faults, scratch memory
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  double total = 0;
  while (times.size() < 3 || total < seconds) {
    const Clock::time_point start = Clock::now();
    run(work);
    const Clock::time_point end = Clock::now();
    times.push_back(std::chrono::duration<double>(end - start).count());
    total = std::chrono::duration<double>(end - begin).count();
  }
  return times;
}

void fill_rates(const MachineLimits& limits, double flops, double bytes,
                std::vector<double> seconds, Result& result) {
  std::sort(seconds.begin(), seconds.end());
  const double best = seconds.front();
  result.threads = limits.threads;
  result.isa = limits.isa;
  result.ms = seconds[seconds.size() / 2] * 1e3;
  result.best_ms = best * 1e3;
  result.gflops = flops / best * 1e-9;
  result.gbs = bytes / best * 1e-9;
  const double bound =
      std::max(flops * 1e-9 / limits.peak_gflops(), bytes * 1e-9 / limits.dram_gbs);
  result.limit_share = bound / best;
}

std::vector<Result> bench_ops(const std::vector<Shape>& shapes, const BenchOptions& options,
                              const MachineLimits& limits) {
  std::vector<Result> results;
  for (const Shape& shape : shapes) {
    if (shape.name.find(options.filter) == std::string::npos) {
      continue;
    }
    results.push_back(shape.op == "linear" ? bench_linear(shape, options, limits)
                                           : bench_vision_attention(shape, options, limits));
  }
  return results;
}

std::string result_text(const Result& r) {
  char text[256];
  std::snprintf(text, sizeof(text),
                "%-24s %-24s %-9s %2d threads %10.3f ms (best %10.3f) %8.1f GFLOP/s %7.1f GB/s "
                "%5.1f %% of limit",
                r.name.c_str(), r.shape.c_str(), std::string(isa_name(r.isa)).c_str(), r.threads,
                r.ms, r.best_ms, r.gflops, r.gbs, r.limit_share * 100);
  return text;
}

}  // namespace tessera::bench
