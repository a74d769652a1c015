// GET /v1/models, POST /tokenize and POST /detokenize.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "runtime/engine.h"
#include "server/api_answer.h"
#include "server/api_call.h"

namespace tessera::server {

struct ServedModel {
  std::string name;
  int64_t created = 0;  // seconds since 1970
  int64_t context = 0;  // most tokens of a sequence
};
io::Json model_json(const ServedModel& model);
// {"object":"list","data":[...]}
io::Json models_json(const std::vector<ServedModel>& models);
// GET /v1/models/NAME. Throws ApiError{unknown_model}.
io::Json model_named(const std::vector<ServedModel>& models, std::string_view name);

// {"prompt": text} or {"messages": ...} as in a chat: the request whose prompt is asked for
// (Engine::encode). Throws ApiError of status 400 or 404.
Request parse_tokenize_body(std::string_view body, const ApiLimits& limits);
io::Json tokenize_json(const std::vector<int32_t>& ids, int64_t context);

// {"tokens": ids}. Throws ApiError of status 400, also for an id that is no token.
std::vector<int32_t> parse_detokenize_body(std::string_view body, const ApiLimits& limits,
                                           const TokenBytes& token_bytes);
// {"prompt": text} of the bytes of the tokens.
io::Json detokenize_json(const std::vector<int32_t>& ids, const TokenBytes& token_bytes);

}  // namespace tessera::server
