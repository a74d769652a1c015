// A checkpoint folder with synthetic values, in the layout of the release: which tensor goes into
// which file and in which order, and the files themselves, written piece by piece in constant
// memory. Source: checkpoint_v41 specification 2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/checkpoint_layout.h"
#include "models/deepseek_v41/config.h"
#include "models/stored_format.h"

namespace tessera::deepseek_v41 {

// Files: vision tower and aligner; embedding and image vectors; one for each layer; head and last
// norm; one for each draft stage; one for each Engram memory. Within a file wide types come first,
// then names, so that the packed weights of an expert lie side by side, and its scales. Throws
// Error{unsupported} when the bytes cannot be counted.
CheckpointLayout released_layout(std::vector<TensorSpec> tensors);

// Writes all files of a layout into `folder`. Their bytes depend on the layout and the seed alone.
// `on_progress` hears the bytes done so far, and ends the work by throwing. A file appears complete
// or not at all; what an error leaves behind are the files that were complete before it.
struct SyntheticFiles {
  std::string folder;
  uint64_t seed = 1;
  std::function<void(int64_t done, int64_t total)> on_progress = {};
};
void write_synthetic_files(ThreadPool& threads, const CheckpointLayout& layout,
                           const SyntheticFiles& files);

}  // namespace tessera::deepseek_v41
