// Options that several subcommands share: which model, and what to ask it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "picture_options.h"
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
  std::string nvfp4_activations = "calibrated";
  std::string encoding = "ref";
  int64_t resident_limit_bytes = 0;
  bool locks_hot_weights = false;
  PictureArguments pictures;
};
void add_model_options(CLI::App& command, ModelArguments& arguments);
// Throws Error{bad_request} for values that no option has.
EngineOptions engine_options(const ModelArguments& arguments);

struct RequestArguments {
  std::vector<std::string> images;
  std::string detail;  // of all images
  std::string system;
  std::string think;
  std::string tools;            // file
  std::string response_format;  // file
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> min_tokens;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::vector<std::string> logit_bias;  // ID:BIAS
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<int64_t> logprobs;
  std::optional<int64_t> choices;
  bool ignores_eos = false;
  std::string input;
  std::string input_case;
  std::string prompt;
};
// How answers are made: --think, --temperature, ...
void add_answer_options(CLI::App& command, RequestArguments& arguments);
// The same, and what is asked: PROMPT, --image, --input, ...
void add_request_options(CLI::App& command, RequestArguments& arguments);
// Sets what add_answer_options() reads. Without --seed one is drawn. Throws Error{bad_request} for
// values out of range.
void set_answer_options(const RequestArguments& arguments, Request& request);
// The one request of the arguments: from --input (and --case) or from PROMPT and --image.
Request make_request(const RequestArguments& arguments);
// A message of one text, with pictures in front of it.
Message text_message(Role role, const std::string& text,
                     const std::vector<std::string>& images = {});

}  // namespace tessera
