// Options that several subcommands share: which model, and what to ask it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace CLI {
class App;
}

namespace tessera {

struct ModelArguments {
  std::string model;
  int threads = 0;
  int64_t context = 0;
  bool is_quiet = false;
  bool is_json = false;
  std::string log_level = "warning";
  std::vector<std::string> reference;  // parity switches
  std::string index_scores = "bf16";
  std::string encoding = "ref";
  int pillow = 13;
};
void add_model_options(CLI::App& command, ModelArguments& arguments);
// Throws Error{bad_request} for values that no option has.
EngineOptions engine_options(const ModelArguments& arguments);

struct RequestArguments {
  std::vector<std::string> images;
  std::string system;
  std::string think;
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> seed;
  bool ignores_eos = false;
  std::string input;
  std::string input_case;
  std::string prompt;
};
void add_request_options(CLI::App& command, RequestArguments& arguments);
// The one request of the arguments: from --input (and --case) or from PROMPT and --image. Without
// --seed one is drawn.
Request make_request(const RequestArguments& arguments);

}  // namespace tessera
