// The work of tessera trace: a request, new or replayed, written with all its taps. Used by
// tessera diff --run too.
#pragma once

#include <string>

#include "request_options.h"

namespace tessera {

struct TraceArguments {
  ModelArguments model;
  RequestArguments request;
  std::string out;
  std::string replay;
  std::string taps = "*";
  std::string only;
  std::string force;
  std::string activations;
  std::string image_root;
};

// Writes the trace; returns the exit status. Throws Error.
int write_trace(TraceArguments arguments);

}  // namespace tessera
