// POST /v1/images/plan: what a picture will cost, before it is paid for.
#pragma once

#include <string_view>
#include <vector>

#include "io/json.h"
#include "runtime/engine.h"
#include "server/api_call.h"

namespace tessera::server {

struct PlanCall {
  std::vector<ImageSource> pictures;
  bool has_preview = false;
};

// {"messages": ...} as in a chat, or {"images": [URL or {"url", "detail"}, ...]}; "preview": true
// for PNG files of what the model sees. Throws ApiError of status 400.
PlanCall parse_plan_body(std::string_view body, const ApiLimits& limits);

// {"images": [...], "total_tokens"}
io::Json plan_json(const std::vector<PicturePlan>& plans);

}  // namespace tessera::server
