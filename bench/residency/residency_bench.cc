// residency_bench [FOLDER [LIMIT_MIB [EXPERTS [TOKENS]]]]: decode of a model that is larger than
// the memory it may take, from files that are not in the page cache, against what the disk can do.
//
// Writes layers of the released widths into FOLDER (default: a temporary one) and removes them
// again. Between the tokens the page cache forgets what the process does not hold, as on a machine
// that has no more memory than the limit.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/residency.h"
#include "base/str_cat.h"
#include "io/safetensors.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/checkpoint_binder.h"
#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/synthetic.h"
#include "models/deepseek_v41/synthetic_checkpoint.h"
#include "models/deepseek_v41/weight_ranges.h"
#include "ops/rope/rope.h"
#include "runtime/machine_disk.h"

namespace {

namespace fs = std::filesystem;
namespace v41 = tessera::deepseek_v41;
using tessera::ByteSpan;
using tessera::str_cat;
using Clock = std::chrono::steady_clock;

constexpr int64_t kLayers = 4;
constexpr int64_t kVocab = 4096;
constexpr double kGoal = 0.7;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double megabytes(double bytes) { return bytes * 1e-6; }

// A folder that goes with everything in it.
class Folder {
 public:
  explicit Folder(const std::string& parent) {
    path_ = parent + "/tessera_residency_XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw tessera::Error(tessera::ErrorCode::io, str_cat(path_, ": cannot make this folder"));
    }
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_model(const v41::Config& config, const std::string& folder) {
  tessera::ThreadPool threads(tessera::available_threads());
  const tessera::CheckpointLayout layout = v41::released_layout(v41::tensor_catalogue(config));
  std::printf("model       %.0f MB in %zu files, %lld of %lld experts per row\n",
              megabytes(static_cast<double>(layout.data_bytes)), layout.shards.size(),
              static_cast<long long>(config.active_experts),
              static_cast<long long>(config.experts));
  std::fflush(stdout);
  v41::write_synthetic_files(threads, layout, {.folder = folder, .seed = 1, .on_progress = {}});
  std::ofstream(folder + "/model.safetensors.index.json") << layout.index;
}

struct Model {
  Model(const v41::Config& config, const std::string& folder) : checkpoint(folder) {
    network.config = config;
    network.weights = v41::bind_weights(checkpoint, config);
    network.window_frequencies =
        tessera::rope_frequencies(config.rotary_dim, config.rope_theta, {});
    network.compressed_frequencies =
        tessera::rope_frequencies(config.rotary_dim, config.compress_rope_theta, config.yarn);
  }

  tessera::io::Checkpoint checkpoint;
  v41::Network network;
};

std::vector<ByteSpan> files_of(const tessera::io::Checkpoint& checkpoint) {
  std::vector<ByteSpan> files;
  for (const tessera::io::SafetensorsFile& file : checkpoint.files()) {
    files.push_back(file.file().bytes());
  }
  return files;
}

// The page cache keeps only what this process has mapped.
void forget_files(const tessera::io::Checkpoint& checkpoint) {
  for (const tessera::io::SafetensorsFile& file : checkpoint.files()) {
    const int descriptor = ::open(file.file().path().c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(descriptor);  // dirty pages would stay
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

// Bytes that this process has read from disks.
int64_t disk_bytes() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t value = 0;
  while (io >> name >> value) {
    if (name == "read_bytes:") {
      return value;
    }
  }
  return 0;
}

struct Decoded {
  double seconds = 0;
  int64_t disk_bytes = 0;
};

// Tokens of one sequence after `warm_up` that are not counted.
Decoded decode(const Model& model, tessera::Residency* residency, int warm_up, int tokens,
               const std::function<void()>& between) {
  const v41::Config& config = model.network.config;
  tessera::ThreadPool threads(tessera::available_threads());
  tessera::Arena scratch;
  tessera::ExecContext ctx{.threads = threads,
                           .scratch = scratch,
                           .isa = tessera::active_isa(),
                           .trace = {},
                           .residency = residency};
  v41::CachePools pools(config, warm_up + tokens + 64);
  v41::SequenceState state(config, pools);
  v41::StepBuffers buffers(config, 1, 1);
  std::mt19937 random(2);
  Decoded sum;
  for (int token = 0; token < warm_up + tokens; ++token) {
    between();
    const int32_t id = static_cast<int32_t>(random() % static_cast<uint32_t>(config.vocab));
    v41::StepPlan plan;
    v41::add_run(plan, state, {&id, 1}, {}, {});
    v41::plan_all_rows(plan, config);
    plan.logit_rows = {0};
    state.prepare(config, 1);
    const int64_t before = disk_bytes();
    const Clock::time_point start = Clock::now();
    v41::forward(ctx, model.network, plan, buffers);
    if (token >= warm_up) {
      sum.seconds += seconds_since(start);
      sum.disk_bytes += disk_bytes() - before;
    }
    v41::commit(config, plan, 0, 1, buffers, state);
  }
  return sum;
}

// What the disk gives in the engine's own manner: a weight at a time, in random order, requested
// and then touched.
double scattered_bytes_per_second(const Model& model) {
  forget_files(model.checkpoint);
  std::vector<ByteSpan> ranges;
  for (const v41::LayerWeights& layer : model.network.weights.layers) {
    std::vector<int32_t> all(layer.ffn.experts.size());
    for (size_t e = 0; e < all.size(); ++e) {
      all[e] = static_cast<int32_t>(e);
    }
    for (const ByteSpan range : v41::expert_ranges(layer.ffn, all)) {
      ranges.push_back(range);
    }
  }
  std::shuffle(ranges.begin(), ranges.end(), std::mt19937(1));
  const Clock::time_point start = Clock::now();
  int64_t bytes = 0;
  int64_t sum = 0;
  size_t requested = 0;
  for (size_t i = 0; i < ranges.size() && seconds_since(start) < 3; ++i) {
    for (; requested < ranges.size() && requested < i + 16; ++requested) {
      tessera::request_pages(ranges[requested]);
    }
    for (size_t at = 0; at < ranges[i].size(); at += 4096) {
      sum += std::to_integer<int64_t>(*static_cast<const volatile std::byte*>(&ranges[i][at]));
    }
    bytes += std::ssize(ranges[i]);
    tessera::release_pages(ranges[i]);
  }
  return sum >= 0 ? static_cast<double>(bytes) / seconds_since(start) : 0;
}

// Large reads of the largest file past the page cache.
double direct_bytes_per_second(const tessera::io::Checkpoint& checkpoint) {
  forget_files(checkpoint);
  const auto& files = checkpoint.files();
  const auto largest =
      std::max_element(files.begin(), files.end(), [](const auto& a, const auto& b) {
        return a.file().bytes().size() < b.file().bytes().size();
      });
  return tessera::measure_disk(largest->file().path(), tessera::available_threads())
      .bytes_per_second;
}

void print_run(const char* name, const Decoded& run, int tokens) {
  std::printf("%-11s %.2f tokens/s, %.0f MB/token from the disk, %.0f MB/s\n", name,
              tokens / run.seconds, megabytes(static_cast<double>(run.disk_bytes)) / tokens,
              megabytes(static_cast<double>(run.disk_bytes)) / run.seconds);
  std::fflush(stdout);
}

int64_t number_argument(int argc, char** argv, int index, int64_t otherwise) {
  int64_t value = 0;
  if (argc <= index) {
    return otherwise;
  }
  if (!tessera::parse_number(std::string_view(argv[index]), value) || value < 1) {
    throw tessera::Error(tessera::ErrorCode::bad_request,
                         str_cat(argv[index], ": expected a number from 1 on"));
  }
  return value;
}

int run(int argc, char** argv) {
  const std::string parent = argc > 1 ? argv[1] : fs::temp_directory_path().string();
  const int64_t limit = number_argument(argc, argv, 2, 512) << 20;
  const int64_t experts = number_argument(argc, argv, 3, 16);
  const int tokens = static_cast<int>(number_argument(argc, argv, 4, 12));
  const v41::Config config =
      v41::text_excerpt(v41::read_config(TESSERA_RELEASED_CONFIG),
                        {.layers = kLayers, .experts = experts, .vocab = kVocab});
  const Folder folder(parent);
  write_model(config, folder.path());
  const Model model(config, folder.path());
  const std::vector<ByteSpan> files = files_of(model.checkpoint);

  const double direct = megabytes(direct_bytes_per_second(model.checkpoint));
  const double before = megabytes(scattered_bytes_per_second(model));

  Decoded limited;
  tessera::ResidencyStatistics s;
  {
    tessera::Residency residency({.limit_bytes = limit}, files);
    residency.check_limit(0, v41::largest_use_bytes(model.network));
    limited = decode(model, &residency, tokens, tokens, [&] { forget_files(model.checkpoint); });
    s = residency.statistics();
  }
  const double after = megabytes(scattered_bytes_per_second(model));
  std::printf(
      "disk        %.0f MB/s in large direct reads; weight by weight through the page cache "
      "%.0f before, %.0f after\n",
      direct, before, after);
  print_run("limited", limited, tokens);
  std::printf("            limit %.0f MB, peak %.0f MB; used %.0f MB, missed %.0f MB\n",
              megabytes(static_cast<double>(limit)), megabytes(static_cast<double>(s.peak_bytes)),
              megabytes(static_cast<double>(s.used_bytes)),
              megabytes(static_cast<double>(s.missed_bytes)));
  for (const ByteSpan file : files) {
    tessera::release_pages(file);
  }
  print_run("unmanaged",
            decode(model, nullptr, 1, tokens,
                   [&] {
                     for (const ByteSpan file : files) {
                       tessera::release_pages(file);
                     }
                     forget_files(model.checkpoint);
                   }),
            tokens);
  print_run("in memory", decode(model, nullptr, tokens, tokens, [] {}), tokens);
  const double best = std::max(direct, (before + after) / 2);
  const double share = megabytes(static_cast<double>(limited.disk_bytes)) / limited.seconds / best;
  std::printf("share       %.0f %% of the disk (goal: %.0f %%)\n", 100 * share, 100 * kGoal);
  return s.peak_bytes <= limit ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "residency_bench: %s\n", error.what());
    return exit_status(error.code());
  }
}
