// Where a model's parts lie on a machine, and how fast it will run there: predicted from the work
// (models/deepseek_v41/cost.h) and the speeds of the machine (machine.h).
//
// Time of a step =  sum over matrices of max( operations / speed of the kernel at so many rows,
//                                             bytes / memory bandwidth )
//                 + operations of attention and of index scores / their speed
//                 + bytes that are not in memory / disk bandwidth
//                 + rows of tables that are not in memory / reads per second.
// Nothing overlaps between the lines: which experts are read is known only when their layer is
// reached. Small operations (norms, mixes, activations) are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/deepseek_v41/cost.h"
#include "runtime/engine.h"
#include "runtime/machine.h"

namespace tessera {

struct PlanRequest {
  EngineOptions engine;      // context, step_rows, caches, serving limits
  int64_t prompt = 1024;     // tokens of text
  int64_t most_picture = 0;  // tokens of the picture's span; 0: the model's largest
};

// When a part is read; memory is given out in this order.
enum class PartUse { working_memory, every_token, picture, picked, rows, never };

// A part of the checkpoint, or the working memory.
struct Placement {
  std::string_view component;
  PartUse use = PartUse::never;
  int64_t bytes = 0;         // stored
  int64_t memory_bytes = 0;  // that stay in memory
  std::string_view where;    // "memory", "memory and disk", "disk", "not read"
  std::string_view why;

  double share() const {
    return bytes > 0 ? static_cast<double>(memory_bytes) / static_cast<double>(bytes) : 1;
  }
};

struct StepTime {
  double product_seconds = 0;    // of matrices that the kernels bind
  double memory_seconds = 0;     // of matrices that the memory bandwidth binds
  double attention_seconds = 0;  // index scores too
  double disk_seconds = 0;
  double bytes = 0;       // read: weights, caches, tables
  double disk_bytes = 0;  // of these, not in memory
  double disk_reads = 0;  // at random places
  double flops = 0;

  double seconds() const {
    return product_seconds + memory_seconds + attention_seconds + disk_seconds;
  }
  // What takes most of the time: "kernels", "memory bandwidth", "attention" or "disk".
  std::string_view limit() const;
  StepTime& operator+=(const StepTime& more);
};

struct DecodePrediction {
  int64_t position = 0;
  int64_t sequences = 1;
  StepTime time;  // of one step

  double tokens_per_second() const { return static_cast<double>(sequences) / time.seconds(); }
};

struct MachinePlan {
  std::vector<Placement> placements;  // in the order in which memory is given out
  MemoryPlan working_memory;
  int64_t memory_bytes = 0;  // of the machine
  int64_t context = 0;
  // Most tokens of a sequence with everything that is read for every token in memory, and with all
  // that is ever read but tables of rows; 0: not even one.
  int64_t most_context = 0;
  int64_t most_context_all = 0;
  std::vector<DecodePrediction> decode;
  int64_t prompt_tokens = 0;
  StepTime prompt;        // to the first token of a text, weights where `placements` says
  double load_bytes = 0;  // what the first request reads from the disk besides
  int64_t picture_patches = 0;
  int64_t picture_tokens = 0;
  StepTime picture;         // tower and aligner; all zeros without a tower
  StepTime picture_prompt;  // the text and the picture's span
};

// Throws Error{bad_request} for a context that the model does not have, and for weights that must
// be read from a disk of which nothing is known.
MachinePlan make_plan(const deepseek_v41::CostModel& model, const Machine& machine,
                      const PlanRequest& request);

// The parts, used by benchmarks as well.
StepTime step_time(const deepseek_v41::StepWork& work, const Machine& machine,
                   const std::vector<Placement>& placements);
StepTime picture_time(const deepseek_v41::PictureWork& work, const Machine& machine);

}  // namespace tessera
