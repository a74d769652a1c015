// What a machine can do, as far as a plan needs to know: measured here, read from a file of a named
// machine, or told by options.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/deepseek_v41/config.h"

namespace tessera {

namespace io {
class Json;
}

// A figure and who says so ("measured", "--memory", the words of a machine file).
struct Figure {
  double value = 0;  // 0: not known
  std::string source = {};

  bool is_known() const { return value > 0; }
};

// Operations whose speed a plan multiplies with. Products are named by the width of their weights.
enum class Kernel { fp4, fp8, bf16, attention, index_scores, picture_attention };
constexpr int kKernels = 6;
std::string_view kernel_name(Kernel kernel);

// Operations per second (a multiply and an add are two) by number of rows, all threads together,
// weights read from memory.
struct KernelSpeed {
  struct Point {
    double rows = 0;
    double flops_per_second = 0;
  };
  std::vector<Point> points;  // rows ascending; at least one

  // Of `flops` operations on `rows` rows. Between two points the time is linear in the rows
  // (weights are unpacked once, every row costs its operations), beyond the last it is
  // proportional.
  double seconds(double rows, double flops) const;
  // Of the last point: many rows.
  double most() const { return points.back().flops_per_second; }
};

struct Machine {
  std::string name;
  std::string comment = {};
  Figure threads;
  Figure memory_bytes;           // that weights, caches and buffers may take
  Figure memory_bandwidth;       // bytes per second that all threads read
  Figure disk_bandwidth;         // bytes per second in large reads
  Figure disk_reads_per_second;  // of 4 KiB at random places, asked for by all threads at once
  std::array<KernelSpeed, kKernels> kernels;
  std::string kernels_source;

  const KernelSpeed& speed(Kernel kernel) const { return kernels[static_cast<size_t>(kernel)]; }
  KernelSpeed& speed(Kernel kernel) { return kernels[static_cast<size_t>(kernel)]; }
  // Other numbers of threads and other speeds of the product of bf16 weights with many rows; all
  // kernels keep their proportions.
  void scale_threads(double count, const std::string& source);
  void scale_flops(double flops_per_second, const std::string& source);
};

// A machine file, share/machines/*.json: every figure is {"value", "source"}, speeds of kernels are
// of one thread. Throws Error{bad_file} for anything missing, unknown or out of range.
Machine read_machine(const std::string& path);
Machine parse_machine(const io::Json& json, const std::string& name);

double steady_seconds();

struct MeasureOptions {
  int threads = 1;
  // A file of the model to time reads of, not from the page cache; empty: the disk stays unknown.
  std::string file = {};
  // Seconds from any start. Benchmarks on a machine that others use give it processor time.
  double (*clock)() = steady_seconds;
  // Called before each of the parts, with what is measured and the share that is done.
  std::function<void(std::string_view what, double share)> on_progress = {};
};

// Of this machine, in less than about five seconds: the kernels with matrices of the model's shapes
// and generated values, 512 MiB at most.
Machine measure_machine(const deepseek_v41::Config& config, const MeasureOptions& options);

}  // namespace tessera
