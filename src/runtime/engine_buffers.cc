#include "runtime/engine_buffers.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera {

deepseek_v41::StepBuffers& step_buffers(const deepseek_v41::Config& config, int64_t rows,
                                        int64_t logit_rows,
                                        std::unique_ptr<deepseek_v41::StepBuffers>& buffers) {
  if (buffers == nullptr || rows > buffers->max_rows || logit_rows > buffers->max_logit_rows) {
    const int64_t most_rows = buffers == nullptr ? rows : std::max(rows, buffers->max_rows);
    const int64_t most_logits =
        buffers == nullptr ? logit_rows : std::max(logit_rows, buffers->max_logit_rows);
    std::vector<int64_t> picks =
        buffers == nullptr ? std::vector<int64_t>() : std::move(buffers->expert_picks);
    buffers = std::make_unique<deepseek_v41::StepBuffers>(config, most_rows, most_logits);
    buffers->expert_picks = std::move(picks);
  }
  return *buffers;
}

}  // namespace tessera
