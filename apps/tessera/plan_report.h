// What `tessera plan` prints: a table of places, the reasoning, the predictions; or one JSON value.
#pragma once

#include <string>

#include "io/json.h"
#include "runtime/machine.h"
#include "runtime/machine_plan.h"

namespace tessera {

struct PlanReport {
  std::string model;  // config.json that the plan is for
  const deepseek_v41::CostModel& cost;
  const Machine& machine;
  const MachinePlan& plan;
  int64_t step_rows = 0;
};

std::string plan_text(const PlanReport& report);
io::Json plan_json(const PlanReport& report);

}  // namespace tessera
