// What `tessera serve` is told beside the engine's own options.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_keys.h"
#include "server/http_options.h"

namespace tessera::server {

struct ServerOptions {
  HttpOptions http;
  std::vector<std::string> model_names;  // the first is what answers say; at least one
  ApiKeys keys;                          // none: everybody may ask, all are one tenant
  bool reads_media_files = false;        // pictures may be paths (EngineOptions::pictures)
  int64_t max_choices = 16;              // n of a request
  // From a request to the end of its answer; what is not done then ends with "length".
  std::optional<std::chrono::milliseconds> request_timeout;
  std::chrono::milliseconds keep_alive{10'000};  // a quiet stream gets a comment this often
  // /health fails when requests wait and the engine has not moved for so long.
  std::chrono::milliseconds stall{60'000};
  std::string version;      // of the program
  std::string build;        // commit and compiler
  std::string fingerprint;  // system_fingerprint
};

}  // namespace tessera::server
