#include "model/prefill_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/step.h"
#include "models/deepseek_v41/synthetic.h"
#include "tensor/exec_context.h"

namespace tessera::bench {
namespace {

using deepseek_v41::Config;
using deepseek_v41::Network;
using deepseek_v41::SequenceState;
using deepseek_v41::StepPlan;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostTokens = 1 << 18;

// Depth, window, ratios, sources and candidate rules of the release; widths that leave a prompt of
// thousands of tokens to seconds.
Config narrow(const Config& released) {
  Config c = deepseek_v41::text_only(released);
  c.vocab = 512;
  c.hidden = 128;
  c.heads = 4;
  c.head_dim = 64;
  c.rotary_dim = 32;
  c.q_rank = 64;
  c.o_rank = 32;
  c.o_groups = 2;
  c.ffn_dim = 64;
  c.experts = 8;
  c.active_experts = 2;
  c.index_heads = 4;
  c.index_head_dim = 64;
  return c;
}

struct Pass {
  double ms = 0;
  int64_t layer_rows = 0;
  std::vector<float> logits;
  std::vector<std::byte> state;
};

class Machine {
 public:
  Machine(const Config& config, const PrefillBenchOptions& options)
      : options_(options),
        threads_(options.threads),
        ctx_{threads_, scratch_, options.isa, {}},
        weights_(ctx_, config),
        network_(deepseek_v41::synthetic_network(config, weights_)),
        buffers_(config, options.chunk, 1) {}

  Pass prefill(const std::vector<int32_t>& ids, bool is_half) {
    const Config& config = network_.config;
    const int64_t total = static_cast<int64_t>(ids.size());
    deepseek_v41::CachePools pools(config, total + 64);
    SequenceState state(config, pools);
    Pass pass;
    const Clock::time_point start = Clock::now();
    while (state.position < total) {
      const int64_t rows = std::min(options_.chunk, total - state.position);
      StepPlan plan;
      const size_t first = static_cast<size_t>(state.position);
      deepseek_v41::add_run(plan, state, std::span(ids).subspan(first, static_cast<size_t>(rows)),
                            {}, {});
      const deepseek_v41::RowEnd end = {.position = total, .tail = 1};
      is_half ? deepseek_v41::plan_needed_rows(plan, config, {&end, 1})
              : deepseek_v41::plan_all_rows(plan, config);
      if (state.position + rows == total) {
        plan.logit_rows = {static_cast<int32_t>(rows - 1)};
      }
      pass.layer_rows += deepseek_v41::layer_rows(plan);
      state.prepare(config, rows);
      deepseek_v41::forward(ctx_, network_, plan, buffers_);
      deepseek_v41::commit(config, plan, 0, rows, buffers_, state);
    }
    pass.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    const float* logits = buffers_.logits.as<float>();
    pass.logits.assign(logits, logits + config.vocab);
    pass.state = state.serialise(config);
    return pass;
  }

  const Config& config() const { return network_.config; }

 private:
  PrefillBenchOptions options_;
  ThreadPool threads_;
  Arena scratch_;
  ExecContext ctx_;
  deepseek_v41::SyntheticWeights weights_;
  Network network_;
  deepseek_v41::StepBuffers buffers_;
};

// Rows that leave the layers, by the formula: all before the last kv source s, then the last
// (W-1)*(n-1-L) + 1.
int64_t formula_rows(const Config& c, int64_t tokens) {
  const int64_t source = c.kv_sources.empty() ? 0 : c.kv_sources.back();
  int64_t rows = source * tokens;
  for (int64_t layer = source; layer < c.layers; ++layer) {
    rows += std::min(tokens, (c.window - 1) * (c.layers - 1 - layer) + 1);
  }
  return rows;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool same_bits(const Pass& a, const Pass& b) {
  return a.logits.size() == b.logits.size() && a.state == b.state &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

PrefillResult measure(Machine& machine, int64_t tokens, int runs) {
  std::mt19937 random(static_cast<unsigned>(tokens));
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(machine.config().vocab));
  }
  PrefillResult result;
  result.tokens = tokens;
  result.formula_rows = formula_rows(machine.config(), tokens);
  result.bits_equal = true;
  std::vector<double> full_ms, half_ms;
  for (int run = 0; run < runs; ++run) {
    const Pass full = machine.prefill(ids, false);
    const Pass half = machine.prefill(ids, true);
    full_ms.push_back(full.ms);
    half_ms.push_back(half.ms);
    result.full_rows = full.layer_rows;
    result.half_rows = half.layer_rows;
    result.bits_equal = result.bits_equal && same_bits(full, half);
  }
  result.full_ms = median(full_ms);
  result.half_ms = median(half_ms);
  result.speedup = result.full_ms / result.half_ms;
  result.bound = static_cast<double>(result.full_rows) / static_cast<double>(result.half_rows);
  return result;
}

}  // namespace

std::vector<PrefillResult> bench_prefill(const Config& released,
                                         const PrefillBenchOptions& options) {
  if (options.chunk < 1 || options.chunk > kMostTokens || options.runs < 1) {
    throw Error(ErrorCode::bad_request, "expected at least 1 run and chunks of 1 to 262144 rows");
  }
  for (const int64_t tokens : options.lengths) {
    if (tokens < 1 || tokens > kMostTokens) {
      throw Error(ErrorCode::bad_request,
                  str_cat("--tokens ", tokens, ": expected 1 to ", kMostTokens));
    }
  }
  Machine machine(narrow(released), options);
  std::vector<PrefillResult> results;
  for (const int64_t tokens : options.lengths) {
    results.push_back(measure(machine, tokens, options.runs));
  }
  return results;
}

std::string prefill_text(const PrefillResult& r) {
  return str_cat(r.tokens, " tokens: full ", r.full_ms, " ms, half ", r.half_ms, " ms, ", r.speedup,
                 " times as fast (layer-rows: ", r.bound, " times fewer, ", r.half_rows, " of ",
                 r.full_rows, ", the formula says ", r.formula_rows, "), bits ",
                 r.bits_equal ? "equal" : "DIFFER");
}

}  // namespace tessera::bench
