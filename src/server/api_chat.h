// POST /v1/chat/completions: its body to a request. What of it is honoured, refused and ignored:
// docs/api.md.
#pragma once

#include <string_view>

#include "runtime/engine.h"
#include "server/api_call.h"

namespace tessera::server {

struct ChatCall {
  Request request;
  CallOptions options;
};

// Throws ApiError of status 400 that names the field, or of 404 for another model.
ChatCall parse_chat_body(std::string_view body, const ApiLimits& limits);

// The part of it that decides the prompt.
Request prompt_of_chat(const io::Json& body, const ApiLimits& limits);

}  // namespace tessera::server
