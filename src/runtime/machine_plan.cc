#include "runtime/machine_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/working_memory.h"

namespace tessera {
namespace {

using deepseek_v41::Config;
using deepseek_v41::CostModel;
using deepseek_v41::MatrixWork;
using deepseek_v41::StepWork;
using deepseek_v41::StoredWidth;

constexpr double kReadsPerTableRow = 2;  // codes and scales lie apart

struct Rule {
  std::string_view component;
  PartUse use;
  std::string_view why;
};
constexpr std::array kRules = {
    Rule{"attention", PartUse::every_token, "read for every token"},
    Rule{"shared_experts", PartUse::every_token, "read for every token"},
    Rule{"head", PartUse::every_token, "read for every token"},
    Rule{"engram", PartUse::every_token, "read for every token"},
    Rule{"routers", PartUse::every_token, "read for every token"},
    Rule{"hyper_connections", PartUse::every_token, "read for every token"},
    Rule{"indexer", PartUse::every_token, "read for every token of a long context"},
    Rule{"compressor", PartUse::every_token, "read for every token"},
    Rule{"norms", PartUse::every_token, "read for every token"},
    Rule{"vision_tower", PartUse::picture, "read once for every picture"},
    Rule{"aligner", PartUse::picture, "read once for every picture"},
    Rule{"image_marks", PartUse::picture, "read once for every picture"},
    Rule{"experts", PartUse::picked, "a token reads the few that its routers pick"},
    Rule{"embedding", PartUse::rows, "a token reads one row"},
    Rule{"engram_tables", PartUse::rows, "a token reads some rows at random places"},
    Rule{"dspark", PartUse::never, "draft stages are not computed"},
    Rule{"dspark_experts", PartUse::never, "draft stages are not computed"},
    Rule{"other", PartUse::never, "not known"},
};

std::string_view where_of(const Rule& rule, const Placement& placement) {
  if (rule.use == PartUse::never) {
    return "not read";
  }
  if (placement.memory_bytes == placement.bytes) {
    return "memory";
  }
  return placement.memory_bytes > 0 ? "memory and disk" : "disk";
}

// Hands memory out: working memory, then components by use. A component that does not fit keeps
// what is left.
std::vector<Placement> place(const CostModel& model, int64_t working_bytes, int64_t memory_bytes) {
  int64_t left = std::max<int64_t>(memory_bytes - working_bytes, 0);
  std::vector<Placement> placements = {{.component = "working memory",
                                        .use = PartUse::working_memory,
                                        .bytes = working_bytes,
                                        .memory_bytes = std::min(working_bytes, memory_bytes),
                                        .where = "memory",
                                        .why = "caches and buffers, below"}};
  for (const Rule& rule : kRules) {
    Placement placement = {.component = rule.component,
                           .use = rule.use,
                           .bytes = model.stored_bytes(rule.component),
                           .memory_bytes = 0,
                           .where = {},
                           .why = rule.why};
    if (placement.bytes == 0) {
      continue;
    }
    if (rule.use != PartUse::never) {
      placement.memory_bytes = std::min(left, placement.bytes);
      left -= placement.memory_bytes;
    }
    placement.where = where_of(rule, placement);
    placements.push_back(placement);
  }
  return placements;
}

double share_in_memory(const std::vector<Placement>& placements, std::string_view component) {
  for (const Placement& placement : placements) {
    if (placement.component == component) {
      return placement.share();
    }
  }
  return 1;
}

Kernel kernel_of(StoredWidth stored) {
  switch (stored) {
    case StoredWidth::bits4:
      return Kernel::fp4;
    case StoredWidth::bits8:
      return Kernel::fp8;
    case StoredWidth::bits16:
    case StoredWidth::bits32:
      break;
  }
  return Kernel::bf16;
}

void add_product(const MatrixWork& matrix, const Machine& machine, StepTime& time) {
  const double kernel =
      machine.speed(kernel_of(matrix.stored)).seconds(matrix.rows, matrix.flops());
  const double memory = matrix.bytes_read() / machine.memory_bandwidth.value;
  (kernel >= memory ? time.product_seconds : time.memory_seconds) += std::max(kernel, memory);
}

void require_disk(const Machine& machine) {
  if (!machine.disk_bandwidth.is_known() || !machine.disk_reads_per_second.is_known()) {
    throw Error(ErrorCode::bad_request,
                "the weights do not fit into memory, and the speed of the disk is not known; give "
                "--disk-bandwidth and --disk-reads-per-second, or the folder of the checkpoint to "
                "measure it");
  }
}

// The largest context whose working memory is at most `bytes`; 0 for none.
int64_t largest_context(const Config& config, EngineOptions options, int64_t bytes) {
  options.context = 0;
  int64_t most = config.max_positions;
  if (most == 0) {
    most = context_of(options, config);
  }
  const int64_t fixed_bytes =
      working_memory(config, options).bytes() - context_bytes(config, options);
  int64_t fits = 0;
  for (int64_t low = 1, high = most; low <= high;) {
    options.context = low + (high - low) / 2;
    if (fixed_bytes + context_bytes(config, options) <= bytes) {
      fits = options.context;
      low = options.context + 1;
    } else {
      high = options.context - 1;
    }
  }
  return fits;
}

int64_t stored_for(const CostModel& model, PartUse last) {
  int64_t bytes = 0;
  for (const Rule& rule : kRules) {
    bytes += rule.use <= last ? model.stored_bytes(rule.component) : 0;
  }
  return bytes;
}

// Tokens of a side of the largest square picture whose span has no more tokens than this.
int64_t square_side(int64_t tokens) {
  int64_t side = 1;
  while ((side + 1) * (side + 2) + 2 <= tokens) {
    ++side;
  }
  return side;
}

StepTime prompt_time(const CostModel& model, const Machine& machine,
                     const std::vector<Placement>& placements, int64_t tokens, int64_t step_rows) {
  StepTime time;
  for (const StepWork& step : model.prompt(tokens, step_rows)) {
    time += step_time(step, machine, placements);
  }
  return time;
}

}  // namespace

StepTime& StepTime::operator+=(const StepTime& more) {
  product_seconds += more.product_seconds;
  memory_seconds += more.memory_seconds;
  attention_seconds += more.attention_seconds;
  disk_seconds += more.disk_seconds;
  bytes += more.bytes;
  disk_bytes += more.disk_bytes;
  disk_reads += more.disk_reads;
  flops += more.flops;
  return *this;
}

std::string_view StepTime::limit() const {
  const std::array<std::pair<double, std::string_view>, 4> parts = {
      {{disk_seconds, "disk"},
       {memory_seconds, "memory bandwidth"},
       {product_seconds, "kernels"},
       {attention_seconds, "attention"}}};
  return std::max_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

StepTime step_time(const StepWork& work, const Machine& machine,
                   const std::vector<Placement>& placements) {
  StepTime time;
  time.bytes = work.bytes();
  time.flops = work.flops();
  for (const MatrixWork& matrix : work.matrices) {
    add_product(matrix, machine, time);
    time.disk_bytes += (1 - share_in_memory(placements, matrix.component)) * matrix.bytes_read();
  }
  // Keys are shared by the rows of a run; what counts is how many rows a layer has.
  const double layers = static_cast<double>(work.attention_layers);
  const double rows = layers > 0 ? work.attention_rows / layers : 0;
  time.attention_seconds = machine.speed(Kernel::attention).seconds(rows, work.attention_flops) +
                           machine.speed(Kernel::index_scores).seconds(rows, work.index_flops);
  time.disk_reads =
      (1 - share_in_memory(placements, "engram_tables")) * kReadsPerTableRow * work.table_rows +
      (1 - share_in_memory(placements, "embedding")) * work.step_rows;
  if (time.disk_bytes > 0 || time.disk_reads > 0) {
    require_disk(machine);
    time.disk_seconds = time.disk_bytes / machine.disk_bandwidth.value +
                        time.disk_reads / machine.disk_reads_per_second.value;
  }
  return time;
}

StepTime picture_time(const deepseek_v41::PictureWork& work, const Machine& machine) {
  StepTime time;
  time.flops = work.flops();
  for (const MatrixWork& matrix : work.matrices) {
    add_product(matrix, machine, time);
    time.bytes += matrix.bytes_read();
  }
  time.attention_seconds = machine.speed(Kernel::picture_attention)
                               .seconds(static_cast<double>(work.patches), work.attention_flops);
  return time;
}

MachinePlan make_plan(const CostModel& model, const Machine& machine, const PlanRequest& request) {
  const Config& config = model.config();
  EngineOptions options = request.engine;
  options.threads = static_cast<int>(machine.threads.value);
  MachinePlan plan;
  plan.context = context_of(options, config);
  plan.working_memory = working_memory(config, options);
  plan.memory_bytes = static_cast<int64_t>(machine.memory_bytes.value);
  plan.placements = place(model, plan.working_memory.bytes(), plan.memory_bytes);
  plan.most_context =
      largest_context(config, options, plan.memory_bytes - stored_for(model, PartUse::every_token));
  plan.most_context_all =
      largest_context(config, options, plan.memory_bytes - stored_for(model, PartUse::picked));
  for (const Placement& placement : plan.placements) {
    const bool is_read_whole =
        placement.use == PartUse::every_token || placement.use == PartUse::picked;
    plan.load_bytes += is_read_whole ? static_cast<double>(placement.memory_bytes) : 0;
  }
  plan.prompt_tokens = std::min(request.prompt, plan.context - 1);
  const auto add_decode = [&](int64_t position, int64_t sequences) {
    plan.decode.push_back(
        {.position = position,
         .sequences = sequences,
         .time = step_time(model.decode(position, sequences), machine, plan.placements)});
  };
  add_decode(plan.prompt_tokens, 1);
  add_decode(plan.context - 1, 1);
  add_decode(plan.prompt_tokens, options.serving.max_running);
  plan.prompt = prompt_time(model, machine, plan.placements, plan.prompt_tokens, options.step_rows);
  if (config.vision.layers > 0) {
    const int64_t most = request.most_picture > 0 ? request.most_picture : config.vision.max_tokens;
    const int64_t side = square_side(most) * config.vision.downsample;
    const deepseek_v41::PictureWork work = model.picture(side, side);
    plan.picture_patches = work.patches;
    plan.picture_tokens = work.tokens;
    plan.picture = picture_time(work, machine);
    plan.picture_prompt = prompt_time(model, machine, plan.placements,
                                      std::min(plan.prompt_tokens + work.tokens, plan.context - 1),
                                      options.step_rows);
  }
  return plan;
}

}  // namespace tessera
