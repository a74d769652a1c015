#include "runtime/engine_residency.h"

#include <algorithm>
#include <vector>

#include "base/process_memory.h"
#include "models/deepseek_v41/step.h"
#include "models/deepseek_v41/weight_ranges.h"

namespace tessera {
namespace {

// Of the available memory: a model that takes more may not stay in the page cache beside the
// engine's own memory, and is read ahead.
constexpr double kSmallShare = 0.7;

// Code and data of the program that loading the model has not touched.
constexpr int64_t kUntouchedBytes = int64_t{16} << 20;

// Activations of a step: the streams, queries and attention's results, and the rows of the picked
// experts are by far the largest.
int64_t step_bytes(const deepseek_v41::Config& c, int64_t rows) {
  const int64_t streams = 2 * c.hc_copies * c.hidden;
  const int64_t attention = 2 * c.heads * c.head_dim;
  const int64_t experts = c.active_experts * 2 * (c.hidden + c.ffn_dim);
  const int64_t values = streams + std::max(attention, experts);
  return rows * values * static_cast<int64_t>(sizeof(bf16)) +
         deepseek_v41::StepBuffers(c, rows, 1).bytes();
}

bool is_small(const deepseek_v41::Model& model) {
  return static_cast<double>(model.checkpoint.total_bytes()) <=
         kSmallShare * static_cast<double>(available_memory_bytes());
}

}  // namespace

std::unique_ptr<Residency> open_residency(const EngineOptions& options,
                                          const deepseek_v41::Model& model, int64_t rows,
                                          int64_t cache_bytes) {
  if (options.resident_limit_bytes == 0 && !options.locks_hot_weights && is_small(model)) {
    return nullptr;
  }
  std::vector<ByteSpan> files;
  for (const io::SafetensorsFile& file : model.checkpoint.files()) {
    files.push_back(file.file().bytes());
  }
  auto residency = std::make_unique<Residency>(
      ResidencyOptions{.limit_bytes = options.resident_limit_bytes}, files);
  if (options.locks_hot_weights) {
    residency->lock(deepseek_v41::hot_ranges(model.network));
  }
  const int64_t other_bytes =
      cache_bytes + step_bytes(model.network.config, rows) + kUntouchedBytes;
  residency->check_limit(other_bytes, deepseek_v41::largest_use_bytes(model.network));
  return residency;
}

}  // namespace tessera
