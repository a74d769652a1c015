// POST /v1/completions: its body to a request. What of it is honoured, refused and ignored:
// docs/api.md.
#pragma once

#include <string_view>

#include "runtime/engine.h"
#include "server/api_call.h"

namespace tessera::server {

struct CompletionCall {
  Request request;  // with raw_prompt
  CallOptions options;
  bool echoes_prompt = false;
};

// Throws ApiError of status 400 that names the field, or of 404 for another model.
CompletionCall parse_completion_body(std::string_view body, const ApiLimits& limits);

// The one prompt of a "prompt" field: a string that is not empty, or a list of one.
std::string one_prompt(const io::Json& value);

}  // namespace tessera::server
