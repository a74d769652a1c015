// What the bodies of both generation endpoints have in common: fields of sampling and transport.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine.h"
#include "server/api_fields.h"

namespace tessera::server {

struct ApiLimits {
  std::vector<std::string> models;     // names that are served, the first is ours; empty: any name
  int64_t max_choices = kMaxChoices;   // n
  int64_t max_answer_tokens = 393216;  // max_tokens; what DeepSeek's API allows
  int64_t max_logit_bias = 1024;       // tokens; each costs time in every step
  PicturePaths picture_paths = PicturePaths::refuse;
};

// What of a body is not the engine's to know.
struct CallOptions {
  std::string model;  // as asked for; empty if the body does not say
  bool is_stream = false;
  bool includes_usage = false;  // a last event with the usage
  bool has_seed = false;        // else the caller draws Request::sampling.seed
  int64_t ignored_fields = 0;   // members that are unknown
};

// The model a body asks for. Throws ApiError{unknown_model} for another one than ours.
std::string read_model(Fields& fields, const ApiLimits& limits);

// Everything of CallOptions but ignored_fields, and of the request: sampling, max_tokens,
// min_tokens, stop, ignores_eos, choices. Throws ApiError{invalid_request}.
void read_call(Fields& fields, const ApiLimits& limits, Request& request, CallOptions& options);

}  // namespace tessera::server
