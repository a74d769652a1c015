#include "runtime/working_memory.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "models/deepseek_v41/state.h"
#include "models/deepseek_v41/step.h"
#include "models/deepseek_v41/vision.h"

namespace tessera {
namespace {

using deepseek_v41::Config;

constexpr int64_t kDefaultContext = 32768;
constexpr int64_t kMaxContext = int64_t{1} << 24;
// A page of every cache: what a sequence may have begun beside the pages that it fills.
constexpr int64_t kBegunTokens = kPageRows * deepseek_v41::kMaxRatio;
// Of a full prefix cache; the rest is rings and open groups. A choice: half of each.
constexpr double kPageShare = 0.5;

constexpr int64_t kBf16 = sizeof(bf16);
constexpr int64_t kF32 = sizeof(float);

int64_t threads_of(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

// Rows of the step buffers, as the scheduler makes them.
int64_t most_step_rows(const EngineOptions& options) {
  return std::max(
      options.step_rows,
      sequences_of(options) + std::min(options.step_rows, options.serving.rows_beside_answers));
}

int64_t page_bytes(const Config& config, const EngineOptions& options) {
  return deepseek_v41::cache_pool_bytes(config, pool_tokens(options, config));
}

int64_t step_scratch_bytes(const Config& config, const EngineOptions& options) {
  return scratch_bytes(config, most_step_rows(options), context_of(options, config),
                       threads_of(options));
}

}  // namespace

int64_t context_of(const EngineOptions& options, const Config& config) {
  const int64_t most = config.max_positions > 0 ? config.max_positions : kMaxContext;
  if (options.context < 0 || options.context > most) {
    throw Error(ErrorCode::bad_request, str_cat("--context ", options.context, ": expected 1 to ",
                                                most, " for this model"));
  }
  return options.context > 0 ? options.context : std::min(most, kDefaultContext);
}

int64_t sequences_of(const EngineOptions& options) {
  return std::max(2 * options.serving.max_running, kMaxChoices + 1);
}

int64_t kept_tokens(const EngineOptions& options, const Config& config) {
  const double per_token = deepseek_v41::page_bytes_per_token(config);
  return per_token > 0
             ? static_cast<int64_t>(kPageShare * static_cast<double>(options.prefix_cache_bytes) /
                                    per_token)
             : 0;
}

int64_t pool_tokens(const EngineOptions& options, const Config& config) {
  return std::max(context_of(options, config), options.serving.cache_tokens) +
         kBegunTokens * sequences_of(options) + kept_tokens(options, config);
}

// The buffers that live at the same time in the widest places of forward.cc: the streams and one
// of output projection, index scores, experts.
int64_t scratch_bytes(const Config& c, int64_t rows, int64_t context, int64_t threads) {
  const int64_t width = c.heads * c.head_dim;
  const int64_t blocks = c.candidate_source >= 0 ? ceil_div(context, c.candidate_block_size) : 0;
  // Streams, the layer's input and output, rotary tables, lists and candidate blocks.
  const int64_t always = (c.hc_copies + 4) * c.hidden * kBf16 + 2 * c.rotary_dim * kF32 +
                         std::min(c.index_top_k, context) * 4 + blocks;
  // q, o, o by groups, two latents; the input of wo_b quantised.
  const int64_t output = 3 * width * kBf16 + 3 * c.o_groups * c.o_rank * kBf16;
  int64_t entries = 0;  // that an index source scores
  for (const int64_t layer : c.index_sources) {
    entries = std::max(entries, context / std::max<int64_t>(c.ratio(layer), 1));
  }
  const int64_t scores = width * kBf16 + 2 * c.index_heads * c.index_head_dim * kBf16 +
                         (entries > c.index_top_k ? entries * kF32 : 0);
  // Per pick: the row, gate, up and result, and the inputs of both products quantised; the shared
  // expert.
  const int64_t experts = c.active_experts * (3 * c.hidden + 3 * c.ffn_dim) * kBf16 +
                          2 * (c.hidden + c.ffn_dim) * kBf16;
  // Attention unpacks window and list for every thread.
  const int64_t keys = (2 * c.window + c.index_top_k) * c.head_dim * kF32;
  return rows * (always + std::max({output, scores, experts})) + threads * keys;
}

int64_t context_bytes(const Config& config, const EngineOptions& options) {
  return page_bytes(config, options) + step_scratch_bytes(config, options);
}

MemoryPlan working_memory(const Config& config, const EngineOptions& options) {
  const int64_t context = context_of(options, config);
  const int64_t sequences = sequences_of(options);
  const ServingLimits& serving = options.serving;
  const int64_t step_rows = most_step_rows(options);
  const deepseek_v41::StepBuffers step(config, step_rows, sequences + serving.max_running);
  const int64_t vision_bytes =
      config.vision.layers > 0
          ? deepseek_v41::VisionBuffers<bf16>(config, config.vision.most_patches()).bytes()
          : 0;
  const int64_t kept_pages =
      static_cast<int64_t>(deepseek_v41::page_bytes_per_token(config) *
                           static_cast<double>(kept_tokens(options, config)));
  MemoryPlan plan;
  plan.parts = {
      {"cache pages", page_bytes(config, options),
       str_cat("compressed keys and values of ", std::max(context, serving.cache_tokens),
               " tokens, a begun page for each of ", sequences, " sequences")},
      {"sequences", serving.max_running * deepseek_v41::ring_layer_bytes(config) * config.layers,
       str_cat("window rings of ", serving.max_running, " running requests")},
      {"prefix cache", std::max<int64_t>(options.prefix_cache_bytes - kept_pages, 0),
       "rings and open groups of kept states, at most"},
      {"picture cache", options.picture_cache_bytes, "rows of encoded pictures, at most"},
      {"step", step.bytes(), str_cat("fresh rows and logits of ", step_rows, " rows")},
      {"picture encoder", vision_bytes, "activations of the largest picture"},
      {"scratch", step_scratch_bytes(config, options),
       "of the largest step at the end of the context"}};
  std::stable_sort(plan.parts.begin(), plan.parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return plan;
}

}  // namespace tessera
