// How fast two traces are compared: GB/s of both files together, one thread, files in the disk
// cache, as a share of reading both files' bytes once (memcmp), measured in the same run. Two large
// fp32 taps of random numbers: equal, and with every element changed in its last bits.
//
// diff_bench [MEGABYTES PER FILE], by default 256.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "trace/diff.h"
#include "trace/sinks.h"

namespace {

using namespace tessera;  // NOLINT: a program
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;
constexpr int64_t kWidth = 4096;

double seconds_of(const auto& body) {
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    const Clock::time_point start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[kRuns / 2];
}

// xorshift: fast, and the same everywhere.
void write_trace(const std::string& path, int64_t rows, uint32_t flipped_bits) {
  Tensor values(DType::f32, {rows, kWidth});
  uint64_t state = 88172645463325252ULL;
  for (int64_t i = 0; i < rows * kWidth; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint32_t bits = 0x3f800000U | (static_cast<uint32_t>(state) & 0x7fffffU);
    const uint32_t changed = bits ^ flipped_bits;
    std::memcpy(values.as<float>() + i, &changed, sizeof(changed));
  }
  trace::Writer writer(path);
  writer.add("c0.norm", values.view());
  writer.commit();
}

void run(const std::string& folder, int64_t megabytes, const std::string& stages_file) {
  const int64_t rows = megabytes * 1'000'000 / (kWidth * 4);
  const trace::StageMap stages = trace::StageMap::load(stages_file);
  write_trace(folder + "/a.safetensors", rows, 0);
  const trace::TraceFile a(folder + "/a.safetensors");
  for (const auto& [name, bits] : {std::pair<const char*, uint32_t>{"equal", 0}, {"changed", 7}}) {
    write_trace(folder + "/b.safetensors", rows, bits);
    const trace::TraceFile b(folder + "/b.safetensors");
    const TensorView left = a.require("c0.norm"), right = b.require("c0.norm");
    const double gigabytes = 2e-9 * static_cast<double>(left.bytes());
    int64_t equal_rows = 0;
    const double limit = seconds_of([&] {
      const int64_t row_bytes = kWidth * 4;
      for (int64_t row = 0; row < rows; ++row) {
        // The last byte of a row decides, so that all of it is read.
        uint64_t sums[2] = {};
        for (int64_t i = 0; i < row_bytes; i += 8) {
          uint64_t x = 0, y = 0;
          std::memcpy(&x, left.data + row * row_bytes + i, 8);
          std::memcpy(&y, right.data + row * row_bytes + i, 8);
          sums[0] += x;
          sums[1] += y;
        }
        equal_rows += sums[0] == sums[1] ? 1 : 0;
      }
    });
    trace::DiffVerdict verdict = trace::DiffVerdict::equal;
    const double time = seconds_of([&] { verdict = trace::diff(a, b, stages, {}).verdict; });
    std::cout << str_cat(name, ": ", gigabytes / time, " GB/s, reading alone ", gigabytes / limit,
                         " GB/s, share ", limit / time, " (", trace::diff_verdict_name(verdict),
                         ", ", equal_rows / kRuns, " equal rows)\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t megabytes = argc > 1 ? std::max(1, atoi(argv[1])) : 256;
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "cannot make a folder " << folder << "\n";
    return 3;
  }
  int status = 0;
  try {
    run(folder, megabytes, TESSERA_STAGES);
  } catch (const Error& error) {
    std::cerr << "diff_bench: " << error.what() << "\n";
    status = 2;
  }
  std::filesystem::remove_all(folder);
  return status;
}
